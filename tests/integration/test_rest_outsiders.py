# SPDX-License-Identifier: Apache-2.0
"""Whoever is not in a chat learns nothing on any route: the same answer as for no chat at all.

The table is made from the application's own operations, so that a new route cannot be forgotten.
"""

from typing import Final, NamedTuple

import httpx
import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, Actor, Json, Rest, address
from tests.support.canary import canary
from tidings.api.app import OPERATIONS
from tidings.api.operations import Operation

CHAT_OPERATIONS: Final = [one for one in OPERATIONS if one.path.startswith("/v1/chats/{chat_id}")]
INVITE_OPERATIONS: Final = [
    one for one in OPERATIONS if one.path.startswith("/v1/me/invites/{chat_id}")
]
"""These are about the caller alone: who is not invited learns nothing of the chat by them."""
BODIES: Final[dict[str, Json]] = {
    "rename_chat": {"name": "Taken over"},
    "mute_chat": {"until": None},
    "put_member": {"role": "owner"},
    "post_message": {"client_message_id": "intruder", "content": "hello"},
    "edit_message": {"content": "changed"},
    "mark_receipt": {"read": 1},
    "mark_unread": {"from": 1},
    "hide_chat": {"hidden": True},
    "report_message": {"reason": "spam"},
    "link_attachment": {"thumbnail": True},
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


def same(answer: httpx.Response, other: httpx.Response) -> bool:
    """Alike in everything that could tell something; each request has its own id."""
    ignored = {"x-request-id", "ratelimit"}
    first = {k: v for k, v in answer.headers.items() if k not in ignored}
    second = {k: v for k, v in other.headers.items() if k not in ignored}
    return (answer.status_code, first, answer.content) == (
        other.status_code,
        second,
        other.content,
    )


class Talk(NamedTuple):
    """A group of Alice and Bob with a message and a reaction, Mallory, and another tenant's Alice.

    Nobody who asks for it may change it, so one is enough for all operations.
    """

    chat: str
    alice: Actor
    bob: Actor
    mallory: Actor
    namesake: Actor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talk(rest: Rest) -> Talk:
    alice, bob, mallory = await rest.users("alice", "bob", "mallory")
    await rest.user("bob", "other")
    namesake = await rest.user("alice", "other")
    chat = await alice.group("bob")
    await alice.send(chat, "m1")
    await alice.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/👍")
    return Talk(chat, alice, bob, mallory, namesake)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def left(talk: Talk) -> str:
    """A group of all three, in which Mallory wrote and was removed."""
    chat = await talk.alice.group("bob", "mallory")
    await talk.mallory.send(chat, "m1")
    await talk.alice.ok("PUT", f"/v1/chats/{chat}/messages/2/reactions/👍")
    await talk.alice.ok("DELETE", f"/v1/chats/{chat}/members/mallory")
    return chat


async def test_every_operation_of_a_chat_that_takes_a_body_has_one_here() -> None:
    assert len(CHAT_OPERATIONS) >= 17
    assert {one.name for one in CHAT_OPERATIONS if one.body} == BODIES.keys()


@pytest.mark.attack("D01")
@pytest.mark.parametrize("one", CHAT_OPERATIONS, ids=lambda one: one.name)
async def test_an_outsider_gets_what_a_missing_chat_gets(talk: Talk, one: Operation) -> None:
    chat, alice, mallory = talk.chat, talk.alice, talk.mallory
    before = await alice.ok("GET", f"/v1/chats/{chat}/entries")

    body = BODIES.get(one.name)
    outside = await mallory.call(one.method, address(one, chat_id=chat), body)
    missing = await mallory.call(one.method, address(one, chat_id=NOWHERE), body)

    assert (outside.status_code, outside.json()["code"]) == (404, "chat.not_found")
    assert same(outside, missing)
    assert await alice.ok("GET", f"/v1/chats/{chat}/entries") == before


@pytest.mark.attack("D01")
@pytest.mark.parametrize("one", INVITE_OPERATIONS, ids=lambda one: one.name)
async def test_who_is_not_invited_gets_what_a_missing_chat_gets(talk: Talk, one: Operation) -> None:
    chat, alice, mallory = talk.chat, talk.alice, talk.mallory
    before = await alice.ok("GET", f"/v1/chats/{chat}/entries")

    outside = await mallory.call(one.method, address(one, chat_id=chat))

    assert same(outside, await mallory.call(one.method, address(one, chat_id=NOWHERE)))
    assert await alice.ok("GET", f"/v1/chats/{chat}/entries") == before


@pytest.mark.attack("D02", "D03")
@pytest.mark.parametrize("one", CHAT_OPERATIONS, ids=lambda one: one.name)
async def test_a_former_member_is_an_outsider(talk: Talk, left: str, one: Operation) -> None:
    mallory, body = talk.mallory, BODIES.get(one.name)
    before = await talk.bob.ok("GET", f"/v1/chats/{left}/entries")
    outside = await mallory.call(one.method, address(one, chat_id=left), body)

    assert same(outside, await mallory.call(one.method, address(one, chat_id=NOWHERE), body))
    assert outside.status_code == 404
    assert await talk.bob.ok("GET", f"/v1/chats/{left}/entries") == before


@pytest.mark.attack("D01", "D11")
@pytest.mark.parametrize("one", CHAT_OPERATIONS, ids=lambda one: one.name)
async def test_another_tenants_user_of_the_same_name_is_an_outsider(
    talk: Talk, one: Operation
) -> None:
    namesake, body = talk.namesake, BODIES.get(one.name)
    before = await talk.alice.ok("GET", f"/v1/chats/{talk.chat}/entries")
    outside = await namesake.call(one.method, address(one, chat_id=talk.chat), body)

    assert same(outside, await namesake.call(one.method, address(one, chat_id=NOWHERE), body))
    assert outside.status_code == 404
    assert await talk.alice.ok("GET", f"/v1/chats/{talk.chat}/entries") == before


@pytest.mark.attack("D13")
@pytest.mark.parametrize("one", CHAT_OPERATIONS, ids=lambda one: one.name)
async def test_an_id_that_cannot_be_one_is_a_chat_that_is_not_there(
    talk: Talk, one: Operation
) -> None:
    chat, alice, body = talk.chat, talk.alice, BODIES.get(one.name)
    missing = await alice.call(one.method, address(one, chat_id=NOWHERE), body)
    for twisted in (chat.lower(), f"{chat}%00", f"%20{chat}", f"{chat}%0A", f"{chat}.", "%2e%2e"):
        answer = await alice.call(one.method, address(one, chat_id=twisted), body)
        assert same(answer, missing), (twisted, answer.text)


@pytest.mark.attack("D02")
async def test_the_answer_to_an_own_send_outlives_membership(rest: Rest) -> None:
    alice, mallory = await rest.users("alice", "mallory")
    chat = await alice.group("mallory")
    sent = await mallory.send(chat, "mine")
    await alice.ok("DELETE", f"/v1/chats/{chat}/members/mallory")

    path = f"/v1/chats/{chat}/messages"
    again = {"client_message_id": "mine", "content": canary("mine")}
    answer = await mallory.call("POST", path, again)

    assert (answer.status_code, answer.headers["idempotent-replay"]) == (200, "true")
    assert answer.json() == {name: sent[name] for name in sent if name != "content"}
    assert await mallory.refused("POST", path, {**again, "content": "other"}) == (
        404,
        "chat.not_found",
    )


@pytest.mark.attack("D20")
async def test_a_message_id_tells_an_outsider_nothing(rest: Rest) -> None:
    alice, _, mallory = await rest.users("alice", "bob", "mallory")
    sent = await alice.send(await alice.direct("bob"), "m1")
    outside = await mallory.call("GET", f"/v1/messages/{sent['message_id']}")
    missing = await mallory.call("GET", f"/v1/messages/{NOWHERE}.2")
    malformed = await mallory.call("GET", "/v1/messages/nonsense")
    assert (outside.status_code, outside.json()["code"]) == (404, "message.not_found")
    assert same(outside, missing)
    assert same(outside, malformed)


async def test_an_id_that_is_longer_than_any_key_belongs_to_nothing(rest: Rest) -> None:
    backend, amy = await rest.tenant(), await rest.user("amy")
    tenant, name = "/v1/tenants/acme", "x" * 2_000
    for method, path, body in (
        ("GET", f"{tenant}/reports/{name}/attachments/{name}", None),
        ("POST", f"{tenant}/reports/{name}/unseal", {"reason": "Ticket 4711"}),
        ("PATCH", f"{tenant}/reports/{name}", {"state": "open"}),
        ("GET", f"{tenant}/jobs/{name}", None),
        ("GET", f"{tenant}/jobs/{name}/download", None),
        ("DELETE", f"{tenant}/inboxes/{name}", None),
    ):
        assert (await backend.refused(method, path, body))[0] == 404, path
    for method, body in (("PATCH", {"content": "x"}), ("DELETE", None)):
        refused = await amy.refused(method, f"/v1/scheduled/{name}", body)
        assert refused == (404, "scheduled.not_found")
