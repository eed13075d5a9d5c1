# SPDX-License-Identifier: Apache-2.0
"""Rate limits on the socket: floods of frames, of messages and of connections."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import count, islice, pairwise
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from tests.integration.raw_socket import PING, RawSocket, upgrade_request, ws_frame
from tests.integration.socket_town import friends, people, settled, told, troubles
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOME = "203.0.113.9"
PROXIED = {"TIDINGS_TRUSTED_PROXIES": "127.0.0.1"}
PING_FRAME = ws_frame(b'{"op":"ping"}')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server that takes this machine for a proxy."""
    data = tmp_path_factory.mktemp("server") / "data"
    async with ServerProcess(data, environment=PROXIED) as running:
        yield running
    assert troubles(running) == []


async def from_address(server: ServerProcess, address: str) -> tuple[RawSocket, int, str]:
    """A socket that a client at this address opens through the proxy; its status and pause."""
    raw = await RawSocket.connect(server.port)
    raw.write(upgrade_request(server.port, headers={"X-Forwarded-For": address}))
    status, headers, _ = await raw.answer()
    return raw, status, headers.get("retry-after", "")


@pytest.mark.attack("C08")
@pytest.mark.parametrize("flood", [PING_FRAME, ws_frame(b"", PING), ws_frame(b"x" * 10, PING)])
async def test_a_flood_of_frames_ends_with_4429(
    server: ServerProcess, town: Town, flood: bytes
) -> None:
    [ann] = await people(town, "ann")
    async with await RawSocket.greeted(server.port, ann.token) as raw:
        raw.write(flood * 10_000)
        bye = await raw.frame("bye")
        assert (bye["code"], bye["reconnect"]) == (4429, True)
        assert 0 <= bye["retry_after_ms"] <= 5_000
        assert await raw.close_code() == 4429


async def test_who_is_merely_quick_is_let_be(server: ServerProcess, town: Town) -> None:
    [ann] = await people(town, "ann")
    async with await RawSocket.greeted(server.port, ann.token) as raw:
        raw.write(PING_FRAME * (limits.CONNECTION_FRAMES_BURST - 10))
        for _ in range(limits.CONNECTION_FRAMES_BURST - 10):
            await raw.frame("pong")


def is_over(sender: Device, number: int) -> bool:
    """Whether the send of this number was taken or refused, or nothing is answered any more."""
    return not sender.is_open or any(
        frame.get("id") == f"{number}"
        for frame in (*told(sender, "sent")[-1:], *told(sender, "refused")[-1:])
    )


@pytest.mark.attack("F01", "C08")
async def test_a_flood_of_messages_is_refused_then_ends_with_4429(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as sender, bob.device() as other:
        # Without an end: on a slow machine much flows into the bucket meanwhile, and a flood that
        # stopped by itself might never be too fast.
        flood = count()
        while sender.is_open:
            # No more at once than may wait for their answers.
            for number in islice(flood, limits.CONNECTION_REQUESTS_MAX):
                sender.tell(
                    {
                        "op": "send", "id": f"{number}", "chat": chat,
                        "client_message_id": f"m{number}", "content": "hello",
                    }
                )  # fmt: skip
            await sender.until(lambda last=number: is_over(sender, last))  # type: ignore[misc]
        assert sender.closes == [4429]
        refused = told(sender, "refused")
        assert len(refused) >= limits.SENDS_REFUSED_MAX
        assert {(one["code"], one["retryable"]) for one in refused} == {("rate.limited", True)}
        kept = [one["id"] for one in told(sender, "sent")]
        assert len(kept) >= limits.USER_SENDS_BURST, "what was taken is answered first"
        await other.send(chat, "others are not affected")
        await settled(other)
    mine = [entry for entry in await bob.log(chat) if entry["sender"] == ann.user_id]
    stored = [entry["client_message_id"] for entry in mine if entry["kind"] == "message"]
    numbers = [int(message.removeprefix("m")) for message in stored]
    assert numbers == sorted(set(numbers)), "each once, in the order they were sent"
    # On a slow machine some are stored while the connection is being closed: the sender asks again.
    assert numbers[: len(kept)] == [int(number) for number in kept]
    assert not set(numbers) & {int(one["id"]) for one in refused}


@pytest.mark.attack("F01")
async def test_messages_over_rest_and_socket_are_counted_together(town: Town) -> None:
    chat, (ann, _) = await friends(town, "ann", "bob")
    async with ann.device() as sender:
        for number in range(limits.USER_SENDS_BURST - 2):
            sender.tell(
                {
                    "op": "send", "id": f"{number}", "chat": chat,
                    "client_message_id": f"m{number}", "content": "hello",
                }
            )  # fmt: skip
        await settled(sender)
        body = {"client_message_id": "over-rest", "content": "hello"}
        answer = await ann.request("POST", f"/v1/chats/{chat}/messages", body)
    # What has flowed in since is a matter of time; the REST bucket alone would be all but full.
    assert '"messages";q=2000;w=40' in answer.headers["ratelimit-policy"]
    assert answer.headers["ratelimit"].startswith('"messages";')


async def refused_in_a_row(
    server: ServerProcess, person: Person, count: int
) -> list[tuple[int, int]] | None:
    """Connect until sent away so often in a row; None if somebody was let in meanwhile."""
    byes: list[tuple[int, int]] = []
    while len(byes) < count:
        async with await RawSocket.upgraded(server.port) as raw:
            raw.tell({"op": "hello", "token": person.token, "device": "raw"})
            _, payload = await raw.read()
            bye = msgspec.json.decode(payload)
            if bye["op"] == "welcome":
                return None
            byes.append((bye["code"], bye["retry_after_ms"]))
    return byes


@pytest.mark.attack("F05")
async def test_a_client_that_reconnects_all_the_time_waits_longer_and_longer(
    server: ServerProcess, town: Town
) -> None:
    ann, bob = await people(town, "ann", "bob")
    # A machine that is slow enough lets one in now and then, which starts the waiting afresh.
    async with asyncio.timeout(60):
        while True:
            sent_away = await refused_in_a_row(server, ann, 4)
            if sent_away is not None:
                break
    assert {code for code, _ in sent_away} == {4429}
    waits = [wait for _, wait in sent_away]
    assert all(later >= 1.6 * sooner for sooner, later in pairwise(waits))
    async with bob.device():
        pass


@pytest.mark.attack("C04")
async def test_connections_of_one_address_are_limited(server: ServerProcess) -> None:
    answers = await answers_until_refused(server, lambda _: HOME)
    assert set(answers) == {(101, ""), (503, "1")}
    assert answers[101, ""] >= limits.ADDRESS_CONNECTS_BURST
    other, status, _ = await from_address(server, "198.51.100.7")
    assert status == 101
    other.abort()


async def answers_until_refused(
    server: ServerProcess, address: Callable[[int], str]
) -> Counter[tuple[int, str]]:
    """Open sockets, many at once, until one is refused; the statuses with the pauses."""
    answers: Counter[tuple[int, str]] = Counter()

    async def knock(number: int) -> None:
        raw, status, pause = await from_address(server, address(number))
        answers[status, pause] += 1
        raw.abort()

    async with asyncio.timeout(60):
        while not any(status == 503 for status, _ in answers):
            await asyncio.gather(*(knock(number) for number in range(300)))
    return answers


async def hello_from(server: ServerProcess, address: str, token: str) -> int:
    """How a hello of a client at this address is answered: the code of the bye, 0 for welcome."""
    raw, status, _ = await from_address(server, address)
    async with raw:
        assert status == 101
        raw.tell({"op": "hello", "token": token, "device": "raw"})
        _, payload = await raw.read()
        answer = msgspec.json.decode(payload)
        return 0 if answer["op"] == "welcome" else int(answer["code"])


@pytest.mark.attack("A16")
async def test_wrong_tokens_are_counted_and_right_ones_are_still_let_in(
    server: ServerProcess, town: Town
) -> None:
    [ann] = await people(town, "ann")
    address = "192.0.2.88"
    codes: list[int] = []
    async with asyncio.timeout(60):
        while 4429 not in codes:
            codes.append(await hello_from(server, address, f"guess-{len(codes)}"))
    assert set(codes) == {4401, 4429}
    assert codes.count(4401) >= limits.ADDRESS_WRONG_CREDENTIALS_BURST
    assert await hello_from(server, "192.0.2.89", "guess") == 4401
    assert await hello_from(server, address, ann.token) == 0


@pytest.mark.attack("D16")
async def test_an_address_that_the_client_invents_counts_for_nothing(server: ServerProcess) -> None:
    await answers_until_refused(server, lambda number: f"10.9.{number % 250}.1, 192.0.2.77")


@pytest.mark.attack("C18")
async def test_more_handshakes_than_a_process_takes_are_told_when_to_come_back(
    tmp_path: Path,
) -> None:
    async with ServerProcess(tmp_path, environment=PROXIED, waits="handshakes") as server:
        await knock_too_often(server)


async def knock_too_often(server: ServerProcess) -> None:
    request = upgrade_request(server.port)
    statuses: Counter[int] = Counter()
    pauses: Counter[str] = Counter()

    async def knock() -> None:
        async with await RawSocket.connect(server.port) as raw:
            raw.write(request)
            status, headers, _ = await raw.answer()
            statuses[status] += 1
            if status == 503:
                pauses[headers["retry-after"]] += 1

    async with asyncio.timeout(60):
        while statuses[503] < 100:
            await asyncio.gather(*(knock() for _ in range(300)))
    assert set(statuses) == {101, 503}
    assert len(pauses) > 3, "they are not all told the same"
    assert all(1 <= int(pause) <= 10 for pause in pauses)


@pytest.mark.attack("C03")
async def test_who_connects_and_says_nothing_is_sent_away(tmp_path: Path) -> None:
    async with ServerProcess(tmp_path, environment=PROXIED, waits="hello") as server:
        raw, status, _ = await from_address(server, "192.0.2.200")
        async with raw:
            assert status == 101
            bye = await raw.frame("bye")
            assert bye["code"] == 4408
