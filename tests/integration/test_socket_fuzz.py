# SPDX-License-Identifier: Apache-2.0
"""Bad input on the socket: it is refused or ends the connection, and nobody else notices."""

import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration import bad_frames
from tests.integration.engines import no_limits as no_limits
from tests.integration.raw_socket import CLOSE, TEXT, RawSocket, upgrade_request, ws_frame
from tests.integration.socket_town import friends, post, sequences, until_entries
from tests.support.canary import canary
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLOSE_CODES = {1000, 1002, 1006, 1007, 1009, 4400, 4401, 4403, 4413}
PING = ws_frame(b'{"op":"ping"}')


class Street:
    """A server, somebody who misbehaves, and two who talk to each other meanwhile."""

    def __init__(
        self, server: ServerProcess, vandal: Person, chat: str, talker: Device, listener: Device
    ) -> None:
        self.server = server
        self.vandal = vandal
        self.chat = chat
        self._talker = talker
        self._listener = listener

    async def vandal_comes(self) -> RawSocket:
        return await RawSocket.greeted(self.server.port, self.vandal.token)

    async def is_undisturbed(self) -> None:
        """The two have noticed nothing, and the server can serve."""
        heard = len(sequences(self._listener, self.chat))
        await post(self._talker, self.chat, 5)
        found = await until_entries(self._listener, self.chat, heard + 5)
        assert found == list(range(1, heard + 6))
        assert self._talker.closes == self._listener.closes == []
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=WAIT_SECONDS) as client:
            assert (await client.get(f"{self.server.url}/readyz")).status_code == 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def street(server: ServerProcess, town: Town) -> AsyncIterator[Street]:
    chat, (ann, bob, vandal) = await friends(town, "ann", "bob", "vandal")
    async with ann.device() as talker, bob.device() as listener:
        yield Street(server, vandal, chat, talker, listener)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def bystanders(street: Street) -> AsyncIterator[None]:
    """After every test: nobody else has noticed it."""
    yield
    await street.is_undisturbed()


async def outcome(raw: RawSocket) -> str | int:
    """What a bad frame came to: the code of a refusal, or of the end."""
    while True:
        try:
            opcode, payload = await raw.read()
        except (EOFError, ConnectionError):
            return 1006
        if opcode == CLOSE:
            return int.from_bytes(payload[:2])
        told = msgspec.json.decode(payload) if opcode == TEXT else {}
        if told.get("op") == "refused":
            assert not told["retryable"], told
            return str(told["code"])


async def every_one_is_refused(street: Street, cases: list[tuple[str, bytes]]) -> None:
    """Each on a connection that is open; a new one whenever it was the last straw."""
    raw = await street.vandal_comes()
    for name, payload in cases:
        raw.write(ws_frame(payload))
        what = await outcome(raw)
        assert isinstance(what, str) or what in (1007, 4400, 4401, 4413), f"{name}: {what}"
        if isinstance(what, int):
            raw.abort()
            raw = await street.vandal_comes()
    raw.abort()


# Frames of the protocol.


@pytest.mark.attack("C11", "E05")
async def test_fields_of_the_wrong_type(street: Street) -> None:
    cases = list(bad_frames.wrong_fields())
    assert len(cases) > 150
    await every_one_is_refused(street, cases)


@pytest.mark.attack("C07", "E01", "E02")
async def test_what_is_no_json(street: Street) -> None:
    await every_one_is_refused(street, list(bad_frames.raw_frames()))


async def test_ops_that_there_are_not(street: Street) -> None:
    await every_one_is_refused(street, list(bad_frames.unknown_ops()))


@pytest.mark.attack("C11")
async def test_receipts_and_pages_of_what_never_was(street: Street) -> None:
    await every_one_is_refused(street, list(bad_frames.beyond_what_is_there(street.chat)))


async def test_the_same_before_hello_ends_the_connection(street: Street) -> None:
    cases = [*bad_frames.raw_frames(), *bad_frames.unknown_ops(), *bad_frames.wrong_fields()]
    for name, payload in random.Random(1).sample(cases, 60):
        async with await RawSocket.upgraded(street.server.port) as raw:
            raw.write(ws_frame(payload))
            assert await raw.close_code() in (1007, 4400, 4401), name


@pytest.mark.attack("C14")
async def test_a_hello_that_claims_to_have_everything(street: Street) -> None:
    have = {f"{number:026}": 2**53 - 1 for number in range(1_000)}
    async with await RawSocket.upgraded(street.server.port) as raw:
        raw.tell({"op": "hello", "token": street.vandal.token, "device": "d", "have": have})
        assert (await raw.frame("gone"))["chat"] in have
        await raw.frame("live")


async def test_two_thousand_refusals_in_a_row(street: Street) -> None:
    async with await street.vandal_comes() as raw:
        raw.write(ws_frame(b'{"op":"dance","id":"%d"}' % number) for number in range(2_000))
        for number in range(2_000):
            assert (await raw.frame("refused"))["id"] == f"{number}"


FIELDS = [
    "op", "id", "chat", "sequence", "content", "client_message_id", "ttl_seconds", "content_type",
    "token", "have", "epoch", "device", "after", "before", "limit",
]  # fmt: skip
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text()
    | st.sampled_from(["ping", "send", bad_frames.NOWHERE]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
framelike = st.builds(
    lambda op, fields, changed: {"op": op, **fields, **changed},
    st.sampled_from([*bad_frames.GOOD, "ping", "dance"]),
    st.sampled_from(list(bad_frames.GOOD.values())),
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4),
)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(frames=st.lists(framelike | anything, min_size=1, max_size=5))
async def test_whatever_is_said_is_answered_or_ends_it(
    street: Street, frames: list[dict[str, Any]]
) -> None:
    async with await street.vandal_comes() as raw:
        for frame in frames:
            raw.write(ws_frame(msgspec.json.encode(frame)))
        raw.write(PING)
        assert await pong_or_close(raw) in {0, 4400, 4401, 4403}


async def pong_or_close(raw: RawSocket) -> int:
    """0 if the last ping is answered; else the code of the end."""
    while True:
        try:
            opcode, payload = await raw.read()
        except (EOFError, ConnectionError):
            return 1006
        if opcode == CLOSE:
            return int.from_bytes(payload[:2])
        if opcode == TEXT and payload == b'{"op":"pong"}':
            return 0


# Frames of the protocol below.


def mangled(chance: random.Random, data: bytes) -> bytes:
    """The same with some bits turned, a piece cut out, or noise put in."""
    turned = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        turned[chance.randrange(len(turned))] ^= 1 << chance.randrange(8)
    at = chance.randrange(len(turned))
    match chance.randrange(4):
        case 0:
            del turned[at : at + chance.randrange(1, 20)]
        case 1:
            turned[at:at] = chance.randbytes(chance.randrange(1, 20))
        case _:
            pass
    return bytes(turned)


@pytest.mark.attack("C07")
@pytest.mark.parametrize("seed", range(4))
async def test_noise_in_the_framing_ends_in_a_close(street: Street, seed: int) -> None:
    chance = random.Random(seed)
    good = b"".join(ws_frame(payload) for _, payload in list(bad_frames.unknown_ops())[:6])
    for _ in range(40):
        noise = chance.randbytes(200) if chance.random() < 0.4 else mangled(chance, good)
        async with await street.vandal_comes() as raw:
            raw.write(noise)
            raw.hang_up()
            assert await raw.close_code() in CLOSE_CODES


async def test_good_frames_are_understood_however_they_are_cut(street: Street) -> None:
    chance = random.Random(5)
    data = PING * 200
    async with await street.vandal_comes() as raw:
        while data:
            size = chance.choice([1, 2, 3, 7, 100, 500])
            raw.write(data[:size])
            data = data[size:]
            await raw.flush()
        for _ in range(200):
            await raw.frame("pong")


@pytest.mark.attack("C07")
@pytest.mark.parametrize("seed", range(4))
async def test_noise_instead_of_a_handshake_is_answered_or_ends(street: Street, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        good = upgrade_request(street.server.port, chance.choice(["/v1/ws", "/", "/v1/chats"]))
        noise = chance.randbytes(300) if chance.random() < 0.2 else mangled(chance, good)
        async with await RawSocket.connect(street.server.port) as raw:
            raw.write(noise)
            raw.hang_up()
            status = await raw.first_status()
            assert status < 500 or status in (501, 505), "an encoding or version unknown here"


async def test_who_hangs_up_in_the_middle_of_anything(street: Street) -> None:
    chance = random.Random(6)
    hello = msgspec.json.encode({"op": "hello", "token": street.vandal.token, "device": "d"})
    chat = await street.vandal.create_group("Own", [])
    send = {"op": "send", "chat": chat, "content": canary("x")}
    whole = upgrade_request(street.server.port) + ws_frame(hello)
    for _ in range(40):
        async with await RawSocket.connect(street.server.port) as raw:
            raw.write(whole[: chance.randrange(len(whole) + 40)])
            if chance.random() < 0.5:
                await raw.flush()
    for number in range(10):
        raw = await street.vandal_comes()
        raw.tell({**send, "id": "1", "client_message_id": f"gone-{number}"})
        raw.tell({"op": "fetch", "id": "2", "chat": chat, "after": 0})
        raw.tell({"op": "read", "chat": chat, "sequence": 2**40})
        await raw.flush()
        raw.abort()
