# SPDX-License-Identifier: Apache-2.0
"""Logging in by phone with the client, at a real server; and what becomes of lost answers."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.engine import as_environment
from tests.support.people import Town
from tests.support.phones import Phones, new_number, some_phones
from tests.support.server import ServerProcess
from tidings_client import Client, LoggedOut, Message, PhoneLogin, Refused, StorageTrouble
from tidings_client.login_file import LoginFile, SessionTokens

ONE = SessionTokens("access.1", "rt_1", "session", "ann")
TWO = SessionTokens("access.2", "rt_2", "session", "ann")


class NoPauses:
    """The world, without waiting."""

    def wall(self) -> float:
        return 1_000.0

    def jitter(self, least: float, most: float) -> float:
        del least, most
        return 0.0

    def new_id(self) -> str:
        return "id"


class LosesAnswers(httpx.AsyncBaseTransport):
    """The network: requests arrive, and as many answers as it is told to get lost."""

    def __init__(self) -> None:
        self.to_lose = 0
        self.paths: list[str] = []
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._network.handle_async_request(request)
        self.paths.append(request.url.path)
        if self.to_lose > 0:
            self.to_lose -= 1
            await answer.aclose()
            raise httpx.ReadError("the answer got lost")
        return answer

    async def aclose(self) -> None:
        await self._network.aclose()


@pytest.fixture
async def phones() -> AsyncIterator[Phones]:
    async with some_phones() as opened:
        yield opened


@pytest.fixture
async def town(tmp_path: Path, phones: Phones) -> AsyncIterator[Town]:
    """A tenant of a server that sends texts to the phones."""
    environment = as_environment(phones.settings)
    async with (
        ServerProcess(tmp_path / "data", environment=environment) as server,
        Town(server.url, server.root_key, "acme") as opened,
    ):
        await opened.switch_on_phone_login()
        yield opened


async def log_in(login: PhoneLogin, phones: Phones, number: str) -> str:
    seen = len(phones.texts[number])
    await login.request_code(number)
    return await login.log_in(number, await phones.next_code(number, seen))


async def first_message(client: Client) -> Message:
    async with asyncio.timeout(60):
        async for event in client.events():
            if isinstance(event, Message):
                return event
    raise AssertionError("the client was closed")


async def test_two_people_who_logged_in_by_phone_talk(town: Town, phones: Phones) -> None:
    async with (
        PhoneLogin(town.url, "acme", "phone") as ann,
        PhoneLogin(town.url, "acme", "phone") as ben,
    ):
        await log_in(ann, phones, new_number())
        await log_in(ben, phones, new_number())
        assert ann.user is not None and ben.user is not None
        async with (
            Client(town.url, token=ann.token) as ann_s,
            Client(town.url, token=ben.token, device="phone") as ben_s,
        ):
            chat = await ann_s.api.create_direct(ben.user)
            await ann_s.send(chat.chat_id, "hello")
            message = await first_message(ben_s)
            assert (message.sender, message.content) == (ann.user, "hello")


async def test_a_lost_answer_is_had_again(town: Town, phones: Phones, tmp_path: Path) -> None:
    network = LosesAnswers()
    file = tmp_path / "ann.login"
    async with PhoneLogin(
        town.url, "acme", "phone", file=file, transport=network, world=NoPauses()
    ) as login:
        user = await log_in(login, phones, new_number())
        await login.token()
        first = LoginFile(file).load()
        network.to_lose = 2
        second = await login.token()
        assert LoginFile(file).load() != first
        assert network.paths[-3:] == ["/v1/auth/refresh"] * 3
        third = await login.token()
        for token in (second, third):
            me = await town.http.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
            assert me.json()["user_id"] == user


async def test_a_login_outlives_the_process_and_a_wrong_code_does_not_end_it(
    town: Town, phones: Phones, tmp_path: Path
) -> None:
    file, number = tmp_path / "ann.login", new_number()
    async with PhoneLogin(town.url, "acme", "phone", file=file) as login:
        user = await log_in(login, phones, number)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    async with PhoneLogin(town.url, "acme", "phone", file=file) as again:
        assert again.user == user
        with pytest.raises(Refused) as refused:
            await again.log_in(number, "not it")
        assert refused.value.code == "login.code_wrong"
        await again.token()
    assert [path.name for path in tmp_path.glob("ann*")] == ["ann.login"]


async def test_who_logs_out_is_logged_out_everywhere(
    town: Town, phones: Phones, tmp_path: Path
) -> None:
    file = tmp_path / "ann.login"
    async with PhoneLogin(town.url, "acme", "phone", file=file) as login:
        await log_in(login, phones, new_number())
        old = LoginFile(file).load()
        assert old is not None
        await login.log_out()
        assert login.user is None and not file.exists()
        await login.log_out()  # once more makes no difference
        with pytest.raises(LoggedOut):
            await login.token()
        answer = await town.http.post("/v1/auth/refresh", json={"refresh_token": old.refresh_token})
        assert answer.status_code == 401


async def test_a_client_whose_session_is_ended_stops(town: Town, phones: Phones) -> None:
    async with PhoneLogin(town.url, "acme", "phone") as login:
        user = await log_in(login, phones, new_number())
        key = {"Authorization": f"Bearer {await town.tenant_key()}"}
        path = f"/v1/tenants/acme/users/{user}/sessions"
        assert (await town.http.delete(path, headers=key)).status_code == 204
        async with Client(town.url, token=login.token) as client:
            with pytest.raises(LoggedOut):
                async with asyncio.timeout(60):
                    async for _ in client.events():
                        pass
        assert login.user is None


# --- Without a server --------------------------------------------------------------------------


def answering(*answers: SessionTokens | int) -> tuple[httpx.MockTransport, list[bytes]]:
    """A network that answers like this, and what it was asked."""
    left, asked = list(answers), list[bytes]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        one = left.pop(0)
        if isinstance(one, int):
            return httpx.Response(one, json={"code": "some.code", "detail": "some detail"})
        body = {name: getattr(one, name) for name in one.__struct_fields__}
        return httpx.Response(200, json=body)

    return httpx.MockTransport(answer), asked


def at(transport: httpx.AsyncBaseTransport, file: Path | None = None) -> PhoneLogin:
    return PhoneLogin("http://x", "acme", "d", file=file, transport=transport, world=NoPauses())


async def test_many_who_ask_at_once_get_one_token(tmp_path: Path) -> None:
    LoginFile(tmp_path / "file").save(ONE)
    transport, asked = answering(TWO)
    async with at(transport, tmp_path / "file") as login, asyncio.TaskGroup() as group:
        given = [group.create_task(login.token()) for _ in range(5)]
    assert {one.result() for one in given} == {"access.2"}
    assert len(asked) == 1
    assert LoginFile(tmp_path / "file").load() == TWO


async def test_who_gives_up_waiting_does_not_lose_the_token(tmp_path: Path) -> None:
    LoginFile(tmp_path / "file").save(ONE)
    may_answer, was_asked = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        was_asked.set()
        await may_answer.wait()
        return httpx.Response(200, json={n: getattr(TWO, n) for n in TWO.__struct_fields__})

    async with at(httpx.MockTransport(answer), tmp_path / "file") as login:
        asking = asyncio.create_task(login.token())
        await was_asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        may_answer.set()
    assert LoginFile(tmp_path / "file").load() == TWO


async def test_a_session_that_ended_is_forgotten_and_others_are_not(tmp_path: Path) -> None:
    LoginFile(tmp_path / "file").save(ONE)
    transport, _ = answering(400, 401)
    async with at(transport, tmp_path / "file") as login:
        with pytest.raises(Refused):
            await login.token()
        assert LoginFile(tmp_path / "file").load() == ONE
        with pytest.raises(LoggedOut):
            await login.token()
        assert login.user is None
    assert not (tmp_path / "file").exists()


async def test_what_cannot_be_kept_is_asked_for_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    LoginFile(folder / "file").save(ONE)
    transport, asked = answering(TWO, TWO)
    async with at(transport, folder / "file") as login:
        folder.rename(tmp_path / "moved")
        with pytest.raises(StorageTrouble):
            await login.token()
        (tmp_path / "moved").rename(folder)
        assert await login.token() == "access.2"
    assert asked[0] == asked[1] and b"rt_1" in asked[1]


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("my thesis")
    with pytest.raises(StorageTrouble):
        PhoneLogin("http://x", "acme", "d", file=file)
    assert file.read_text() == "my thesis"
