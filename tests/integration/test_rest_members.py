# SPDX-License-Identifier: Apache-2.0
"""Members over REST: who may add, promote and remove whom."""

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROLES = ("owner", "admin", "member")
FORBIDDEN = (403, "auth.forbidden")


async def team(rest: Rest, *roles: str) -> tuple[str, Actor, list[Actor]]:
    """A group made by olga, with one more member of each of these roles."""
    olga, *others = await rest.users("olga", *(f"m{n}" for n in range(len(roles))))
    chat = await olga.group(*(other.name for other in others))
    for other, role in zip(others, roles, strict=True):
        await olga.ok("PUT", f"/v1/chats/{chat}/members/{other.name}", {"role": role})
    return chat, olga, others


async def roles_in(actor: Actor, chat: str) -> dict[str, str]:
    listed = await actor.ok("GET", f"/v1/chats/{chat}/members")
    return {row["user_id"]: row["role"] for row in listed["data"]}


async def test_members_are_listed_longest_standing_first(rest: Rest) -> None:
    chat, olga, (reader,) = await team(rest, "member")
    await rest.user("late")
    rest.clock.time += 1_000
    await olga.ok("PUT", f"/v1/chats/{chat}/members/late")
    listed = await olga.ok("GET", f"/v1/chats/{chat}/members")
    assert [row["user_id"] for row in listed["data"]] == ["m0", "olga", "late"]
    assert listed["next_cursor"] is None
    assert listed["data"][0].keys() == {
        "user_id", "role", "joined_at", "display_name", "avatar_url", "delivered", "read",
        "read_at",
    }  # fmt: skip
    await reader.ok("PATCH", "/v1/me", {"display_name": "Mo"})
    sent = await olga.send(chat, "1")
    await reader.ok("PUT", f"/v1/chats/{chat}/receipt", {"read": sent["sequence"]})
    shown, _, late = (await olga.ok("GET", f"/v1/chats/{chat}/members"))["data"]
    assert (shown["display_name"], shown["delivered"], shown["read"]) == (
        "Mo", sent["sequence"], sent["sequence"],
    )  # fmt: skip
    assert (late["read"] < shown["read"], late["read_at"]) == (True, None)
    assert shown["read_at"] == rfc3339(rest.clock.now())
    assert listed["data"][2]["joined_at"] > listed["data"][0]["joined_at"]


async def test_a_member_is_added_once(rest: Rest) -> None:
    chat, olga, _ = await team(rest)
    await rest.user("pat")
    path = f"/v1/chats/{chat}/members/pat"
    added = await olga.call("PUT", path)
    again = await olga.call("PUT", path, {})
    same = await olga.call("PUT", path, {"role": "member"})
    promoted = await olga.call("PUT", path, {"role": "admin"})
    kept = await olga.call("PUT", path, {"role": None})
    statuses = [answer.status_code for answer in (added, again, same, promoted, kept)]
    assert statuses == [201, 200, 200, 200, 200]
    assert added.json() == again.json() == same.json()
    assert added.json()["role"] == "member"
    assert promoted.json() == kept.json() == {**added.json(), "role": "admin"}


@pytest.mark.attack("D05")
@pytest.mark.parametrize("actor_role", ROLES)
@pytest.mark.parametrize("role", ROLES)
async def test_who_may_add_with_which_role(rest: Rest, actor_role: str, role: str) -> None:
    chat, _, (actor,) = await team(rest, actor_role)
    await rest.user("newcomer")
    answer = await actor.call("PUT", f"/v1/chats/{chat}/members/newcomer", {"role": role})
    is_allowed = actor_role == "owner" or (actor_role, role) == ("admin", "member")
    assert answer.status_code == (201 if is_allowed else 403)
    assert ("newcomer" in await roles_in(actor, chat)) == is_allowed


@pytest.mark.attack("D05")
@pytest.mark.parametrize("actor_role", ROLES)
@pytest.mark.parametrize("present", ROLES)
@pytest.mark.parametrize("wanted", ROLES)
async def test_who_may_change_a_role(
    rest: Rest, actor_role: str, present: str, wanted: str
) -> None:
    chat, _, (actor, other) = await team(rest, actor_role, present)
    path = f"/v1/chats/{chat}/members/{other.name}"
    answer = await actor.call("PUT", path, {"role": wanted})
    is_allowed = actor_role == "owner" or wanted == present
    assert answer.status_code == (200 if is_allowed else 403)
    assert (await roles_in(actor, chat))[other.name] == (wanted if is_allowed else present)


@pytest.mark.attack("D05")
@pytest.mark.parametrize("actor_role", ROLES)
@pytest.mark.parametrize("other_role", ROLES)
async def test_who_may_remove_whom(rest: Rest, actor_role: str, other_role: str) -> None:
    chat, olga, (actor, other) = await team(rest, actor_role, other_role)
    answer = await actor.call("DELETE", f"/v1/chats/{chat}/members/{other.name}")
    is_allowed = actor_role == "owner" or (actor_role, other_role) == ("admin", "member")
    assert answer.status_code == (204 if is_allowed else 403)
    assert (other.name in await roles_in(olga, chat)) != is_allowed


@pytest.mark.parametrize("role", ROLES)
async def test_anyone_may_leave(rest: Rest, role: str) -> None:
    chat, olga, (leaver,) = await team(rest, role)
    assert (await leaver.call("DELETE", f"/v1/chats/{chat}/members/m0")).status_code == 204
    assert await roles_in(olga, chat) == {"olga": "owner"}
    assert await leaver.refused("GET", f"/v1/chats/{chat}") == (404, "chat.not_found")


@pytest.mark.attack("D06")
async def test_nobody_promotes_oneself(rest: Rest) -> None:
    chat, olga, (member, admin) = await team(rest, "member", "admin")
    for actor in (member, admin):
        path = f"/v1/chats/{chat}/members/{actor.name}"
        assert await actor.refused("PUT", path, {"role": "owner"}) == FORBIDDEN
    assert await roles_in(olga, chat) == {"olga": "owner", "m0": "member", "m1": "admin"}


@pytest.mark.attack("D08")
async def test_a_group_is_never_without_an_owner(rest: Rest) -> None:
    chat, olga, (member, admin) = await team(rest, "member", "admin")
    path = f"/v1/chats/{chat}/members/olga"
    assert await olga.refused("PUT", path, {"role": "member"}) == (409, "role.last_owner")
    await olga.ok("DELETE", path)
    assert await roles_in(admin, chat) == {"m0": "member", "m1": "owner"}
    await admin.ok("DELETE", f"/v1/chats/{chat}/members/m1")
    assert await roles_in(member, chat) == {"m0": "owner"}
    await member.ok("DELETE", f"/v1/chats/{chat}/members/m0")


async def test_a_direct_chat_has_its_two_members_for_ever(rest: Rest) -> None:
    olga, _, _ = await rest.users("olga", "m0", "m1")
    path = f"/v1/chats/{await olga.direct('m0')}/members"
    fixed = (409, "chat.direct")
    assert await olga.refused("PUT", f"{path}/m1") == fixed
    assert await olga.refused("PUT", f"{path}/m0", {"role": "admin"}) == fixed
    assert await olga.refused("DELETE", f"{path}/olga") == fixed
    assert await olga.refused("DELETE", f"{path}/m0") == fixed


async def test_somebody_who_is_not_there(rest: Rest) -> None:
    chat, olga, _ = await team(rest)
    await rest.user("faraway", "other")
    await rest.user("stranger")
    for name in ("ghost", "faraway", "a%20b", "olga%0A", "a" * 65):
        path = f"/v1/chats/{chat}/members/{name}"
        assert await olga.refused("PUT", path) == (404, "user.not_found")
        assert await olga.refused("DELETE", path) == (404, "member.not_found")
    path = f"/v1/chats/{chat}/members/stranger"
    assert await olga.refused("DELETE", path) == (404, "member.not_found")


async def test_a_role_has_to_be_one(rest: Rest) -> None:
    chat, olga, (other,) = await team(rest, "member")
    path = f"/v1/chats/{chat}/members/{other.name}"
    for role in ("root", "", 1, ["owner"], "Owner"):
        assert await olga.refused("PUT", path, {"role": role}) == (400, "request.invalid")
