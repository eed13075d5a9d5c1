# SPDX-License-Identifier: Apache-2.0
"""Quotas of tenants, on every engine: over REST and the socket, for one tenant and no other."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import pytest_asyncio

from tests.integration.engines import engine as engine
from tests.integration.socket_town import friends, people, troubles
from tests.support.client_socket import Refused
from tests.support.engine import Settings, as_environment
from tests.support.people import Person, Town
from tests.support.server import ServerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_SECONDS = 86_400


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings
) -> AsyncIterator[ServerProcess]:
    """A server that adds up what was done many times a second."""
    data = tmp_path_factory.mktemp("server") / "data"
    environment = as_environment(settings)
    async with ServerProcess(data, environment=environment, waits="quotas") as running:
        yield running
    assert troubles(running) == []


@pytest_asyncio.fixture(loop_scope="module")
async def other_town(server: ServerProcess) -> AsyncIterator[Town]:
    async with Town(server.url, server.root_key, "elsewhere") as made:
        yield made


async def allow(town: Town, server: ServerProcess, **quotas: int | None) -> None:
    """Give a tenant quotas; it is made if there is none."""
    await town.tenant_key()
    root = {"Authorization": f"Bearer {server.root_key}"}
    path = f"/v1/tenants/{town.tenant}"
    (await town.http.put(path, json={"quotas": quotas}, headers=root)).raise_for_status()


async def new_town(server: ServerProcess, tenant: str, **quotas: int | None) -> Town:
    town = Town(server.url, server.root_key, tenant)
    await allow(town, server, **quotas)
    return town


async def until_refused(ask: Callable[[], Awaitable[httpx.Response]]) -> tuple[int, httpx.Response]:
    """Ask until the answer is a refusal; how often it was not, and the refusal.

    A process learns of a quota with the first that is counted, and refuses soon after.
    """
    answers: list[httpx.Response] = []

    async def is_refused() -> bool:
        answers.append(await ask())
        return not answers[-1].is_success

    await until(is_refused, describe=lambda: answers)
    return len(answers) - 1, answers[-1]


def said(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def post(person: Person, chat: str, key: str) -> httpx.Response:
    body = {"client_message_id": key, "content": "hello"}
    return await person.request("POST", f"/v1/chats/{chat}/messages", body)


@pytest.mark.attack("D21")
async def test_messages_of_a_day(server: ServerProcess, other_town: Town) -> None:
    async with await new_town(server, "small", messages_per_day=20) as town:
        chat, (ann, bob) = await friends(town, "ann", "bob")
        numbers = iter(range(1_000))
        succeeded, refused = await until_refused(lambda: post(ann, chat, f"m{next(numbers)}"))
        # What is done before the process knows of the quota may come on top.
        assert 20 <= succeeded <= 40
        assert said(refused) == (429, "quota.reached")
        assert 1 <= int(refused.headers["retry-after"]) <= DAY_SECONDS
        async with bob.device() as device:
            with pytest.raises(Refused) as told:
                await device.send_once(chat, "hello", "over-the-quota")
        assert (told.value.code, told.value.retryable) == ("quota.reached", True)
        assert len(await ann.log(chat)) == succeeded + 1

    elsewhere, (cat, _) = await friends(other_town, "cat", "dan")
    assert (await post(cat, elsewhere, "m1")).is_success


async def test_what_is_repeated_counts_once(server: ServerProcess) -> None:
    async with await new_town(server, "repeats", messages_per_day=3) as town:
        chat, (ann, _) = await friends(town, "ann", "bob")
        for _ in range(30):
            assert (await post(ann, chat, "the-same")).is_success


async def test_a_quota_that_is_raised_counts(server: ServerProcess) -> None:
    async with await new_town(server, "grows", messages_per_day=1) as town:
        chat, (ann, _) = await friends(town, "ann", "bob")
        numbers = iter(range(1_000))
        await until_refused(lambda: post(ann, chat, f"m{next(numbers)}"))
        await allow(town, server, messages_per_day=None)

        async def is_taken() -> bool:
            return (await post(ann, chat, f"m{next(numbers)}")).is_success

        await until(is_taken)


async def test_chats_of_a_day(server: ServerProcess) -> None:
    async with await new_town(server, "quiet", chats_per_day=5) as town:
        ann, bob = await people(town, "ann", "bob")
        group = {"type": "group", "name": "A group", "members": [bob.user_id]}
        succeeded, refused = await until_refused(lambda: ann.request("POST", "/v1/chats", group))
        assert 5 <= succeeded <= 15
        assert said(refused) == (429, "quota.reached")
        assert int(refused.headers["retry-after"]) >= 1


async def test_users_of_a_tenant(server: ServerProcess) -> None:
    async with await new_town(server, "tiny", users=2) as town:
        await people(town, "ann")
        key = {"Authorization": f"Bearer {await town.tenant_key()}"}
        users = f"/v1/tenants/{town.tenant}/users"

        async def put(name: str) -> httpx.Response:
            return await town.http.put(f"{users}/{name}", json={}, headers=key)

        # How many users there are is known about, on tables a little late.
        names = (f"user-{number}" for number in range(100))
        made: list[str] = []

        async def put_next() -> httpx.Response:
            made.append(next(names))
            return await put(made[-1])

        _, refused = await until_refused(put_next)
        assert said(refused) == (409, "limit.reached")
        assert (await put(made[0])).is_success, "who is there already may still be changed"
        wish = {"user_id": "somebody-new"}
        token = await town.http.post(f"/v1/tenants/{town.tenant}/tokens", json=wish, headers=key)
        assert said(token) == (409, "limit.reached")
