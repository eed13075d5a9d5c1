# SPDX-License-Identifier: Apache-2.0
"""Leaving many chats at once, on every engine; and a tenant that removes members."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import NOWHERE, Actor, Rest
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/chats/leave"
LEFT = {"left": True, "code": None, "retryable": False}
NOT_IN = {"left": False, "code": "chat.not_found", "retryable": False}


async def last_entries(actor: Actor, chat: str, count: int) -> list[tuple[str, str, list[str]]]:
    """Kind, sender and users of the last entries of a chat."""
    page = await actor.ok("GET", f"/v1/chats/{chat}/entries?after=0")
    return [(one["kind"], one["sender"], one.get("users", [])) for one in page["data"][-count:]]


@pytest.mark.attack("S07", "F03")
async def test_many_chats_are_left_with_one_request(rest: Rest) -> None:
    amy, ben = await rest.users("amy", "ben")
    chats = [await amy.group("ben") for _ in range(6)]

    answer = await ben.ok("POST", PATH, {"chats": [*chats, chats[0], NOWHERE]})
    again = await ben.ok("POST", PATH, {"chats": chats})

    assert answer["data"] == [
        *({"chat_id": chat, **LEFT} for chat in chats),
        {"chat_id": NOWHERE, **NOT_IN},
    ]
    assert again["data"] == [{"chat_id": chat, **NOT_IN} for chat in chats]
    assert (await ben.ok("GET", "/v1/chats"))["data"] == []
    assert await last_entries(amy, chats[0], 1) == [("removed", "ben", ["ben"])]


@pytest.mark.attack("D08")
async def test_what_cannot_be_left_does_not_keep_the_rest(rest: Rest) -> None:
    cleo, dirk = await rest.users("cleo", "dirk")
    direct, foreign = await cleo.direct("dirk"), await dirk.group()
    own = await cleo.group("dirk")

    answer = await cleo.ok("POST", PATH, {"chats": [direct, "no chat", foreign, own]})

    assert [one["code"] for one in answer["data"]] == [
        "chat.direct",
        "chat.not_found",
        "chat.not_found",
        None,
    ]
    members = await dirk.ok("GET", f"/v1/chats/{own}/members")
    assert [(one["user_id"], one["role"]) for one in members["data"]] == [("dirk", "owner")]


@pytest.mark.parametrize("count", [0, limits.LEAVE_CHATS_MAX + 1])
async def test_one_to_a_hundred_chats_are_left_at_once(rest: Rest, count: int) -> None:
    me = await rest.user("amy")
    chats = [f"{number:026}" for number in range(count)]
    assert await me.refused("POST", PATH, {"chats": chats}) == (400, "request.invalid")


# The tenant.


@pytest.mark.attack("S07", "D08")
async def test_a_tenant_removes_anybody_and_the_group_keeps_an_owner(rest: Rest) -> None:
    eve, *_ = await rest.users("eve", "fred", "gina")
    (fred,) = await rest.users("fred")
    backend, chat = await rest.tenant(), await eve.group("fred", "gina")
    path = f"/v1/tenants/acme/chats/{chat}/members"

    await backend.ok("DELETE", f"{path}/eve")

    assert await eve.refused("GET", f"/v1/chats/{chat}") == (404, "chat.not_found")
    assert await last_entries(fred, chat, 2) == [
        ("removed", "~tenant", ["eve"]),
        ("role", "~tenant", ["fred"]),
    ]
    assert await backend.refused("DELETE", f"{path}/eve") == (404, "member.not_found")
    assert await backend.refused("DELETE", f"{path}/~tenant") == (404, "member.not_found")


@pytest.mark.attack("D01", "D11")
async def test_a_tenant_reaches_no_chat_of_another(rest: Rest) -> None:
    hal, _ = await rest.users("hal", "ida")
    chat, direct = await hal.group("ida"), await hal.direct("ida")
    other = await rest.tenant("other")
    wrong = f"/v1/tenants/other/chats/{chat}/members/ida"
    for caller in (other, rest.root):
        assert await caller.refused("DELETE", wrong) == (404, "chat.not_found")
    backend = await rest.tenant()
    fixed = f"/v1/tenants/acme/chats/{direct}/members/ida"
    assert await backend.refused("DELETE", fixed) == (409, "chat.direct")
    assert len((await hal.ok("GET", f"/v1/chats/{chat}/members"))["data"]) == 2
