# SPDX-License-Identifier: Apache-2.0
"""Adding strangers over REST, on every engine: so many in a day, and friends do not count."""

from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tidings.model import limits
from tidings.model.refusals import StoreUnavailable

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITED = (429, "rate.limited")


@pytest.fixture(autouse=True)
async def next_day(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Each test has a day of its own, on which three strangers may be added."""
    rest.clock.time += limits.DAY_MS
    monkeypatch.setattr(limits, "USER_DAY_STRANGERS_MAX", 3)
    yield


async def crowd(rest: Rest) -> list[Actor]:
    return await rest.users("sue", "s1", "s2", "s3", "s4")


def group(*members: str) -> dict[str, object]:
    return {"type": "group", "name": "Team", "members": list(members)}


@pytest.mark.attack("S07", "F03")
async def test_a_user_adds_so_many_strangers_in_a_day(rest: Rest) -> None:
    sue, *_ = await crowd(rest)
    chat = await sue.group("s1", "s2")
    assert await sue.refused("POST", "/v1/chats", group("s3", "s4")) == LIMITED
    await sue.ok("PUT", f"/v1/chats/{chat}/members/s3")
    assert await sue.refused("PUT", f"/v1/chats/{chat}/members/s4") == LIMITED
    assert await sue.refused("POST", "/v1/chats", {"type": "direct", "members": ["s4"]}) == LIMITED

    answer = await sue.call("POST", "/v1/chats", group("s1"))
    left_ms = limits.DAY_MS - rest.clock.time % limits.DAY_MS
    assert int(answer.headers["Retry-After"]) == -(-left_ms // limits.SECOND_MS)

    await sue.group()
    rest.clock.time += left_ms
    (sue,) = await rest.users("sue")
    await sue.group("s1", "s2", "s3")


@pytest.mark.attack("S07")
async def test_who_answered_is_no_stranger(rest: Rest) -> None:
    ivy, jon = await rest.users("ivy", "jon")
    await crowd(rest)
    chat = await ivy.direct("jon")
    await jon.send(chat, "yes")
    await rest.core.receipts.close()
    await ivy.group("s1", "s2")

    for _ in range(5):
        await ivy.group("jon")
    assert await jon.direct("ivy") == chat


async def test_what_is_there_is_found_although_nothing_is_left(rest: Rest) -> None:
    kim, *_ = await rest.users("kim", "s1", "s2", "s3")
    key = {"Idempotency-Key": "k"}
    made = await kim.call("POST", "/v1/chats", group("s1", "s2"), key)
    chat = await kim.direct("s3")

    again = await kim.call("POST", "/v1/chats", group("s1", "s2"), key)
    assert (again.status_code, again.json()["chat_id"]) == (200, made.json()["chat_id"])
    assert await kim.direct("s3") == chat


async def test_what_adds_nobody_costs_nothing(rest: Rest) -> None:
    lou, *_ = await rest.users("lou", "s1", "s2", "s3")
    chat = await lou.group("s1")
    for role in ("admin", "member", "admin"):
        await lou.ok("PUT", f"/v1/chats/{chat}/members/s1", {"role": role})
        assert (await lou.refused("PUT", f"/v1/chats/{chat}/members/nobody"))[0] == 404
        await lou.direct("s2")

    await lou.ok("PUT", f"/v1/chats/{chat}/members/s3")
    assert await lou.refused("POST", "/v1/chats", group("s3")) == LIMITED


async def test_members_are_given_roles_although_nothing_is_left(rest: Rest) -> None:
    max_, *_ = await rest.users("max", "s1", "s2", "s3", "s4")
    chat = await max_.group("s1", "s2", "s3")
    for role in ("admin", "member"):
        await max_.ok("PUT", f"/v1/chats/{chat}/members/s1", {"role": role})
    assert await max_.refused("PUT", f"/v1/chats/{chat}/members/s4") == LIMITED


async def test_a_chat_that_was_not_made_costs_nothing(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ned, *_ = await rest.users("ned", "s1", "s2", "s3")

    async def fail(*_: object) -> NoReturn:
        raise StoreUnavailable("not now")

    with monkeypatch.context() as broken:
        broken.setattr(type(rest.core.store.chats), "create", fail)
        assert (await ned.refused("POST", "/v1/chats", group("s1", "s2", "s3")))[0] == 503
    await ned.group("s1", "s2", "s3")


async def test_only_contacts_add_somebody(rest: Rest) -> None:
    ann, bob, cat = [await rest.user(name, "close") for name in ("ann", "bob", "cat")]
    backend = await rest.tenant("close")
    before = await ann.group("cat")
    path = "/v1/tenants/close/settings"
    await backend.ok("PUT", path, {"invites": "contacts"})
    not_addable = (403, "user.not_addable")

    chat = await ann.group()
    for who in ("bob", "cat"):
        assert await ann.refused("PUT", f"/v1/chats/{chat}/members/{who}") == not_addable
        assert await ann.refused("POST", "/v1/chats", group(who)) == not_addable
    # A member stays one, whoever is a contact.
    await ann.ok("PUT", f"/v1/chats/{before}/members/cat", {"role": "admin"})
    # That she writes to him does not make him her contact; his answer does.
    direct = await ann.direct("bob")
    await ann.send(direct, "m1")
    assert await ann.refused("PUT", f"/v1/chats/{chat}/members/bob") == not_addable
    await bob.send(direct, "m1")
    await rest.core.receipts.close()
    await ann.ok("PUT", f"/v1/chats/{chat}/members/bob")
    assert await ann.refused("POST", "/v1/chats", group("bob", "cat")) == not_addable
    await ann.group("bob")
    # Who is no admin, or no member, is told so first.
    for user, answer in ((bob, (403, "auth.forbidden")), (cat, (404, "chat.not_found"))):
        assert await user.refused("PUT", f"/v1/chats/{chat}/members/cat") == answer
    # The tenant adds everybody.
    await backend.ok("POST", "/v1/tenants/close/chats", group("ann", "cat"))
