# SPDX-License-Identifier: Apache-2.0
"""Chats over REST: making one, finding one, the chat list, names and mutes."""

from pathlib import Path

import pytest

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Rest, open_rest, problem
from tests.support.canary import canary
from tidings.model import limits
from tidings.model.ids import rfc3339

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")


async def test_a_direct_chat_is_one_per_pair(rest: Rest) -> None:
    alice, bob = await rest.users("alice", "bob")
    made = await alice.call("POST", "/v1/chats", {"type": "direct", "members": ["bob"]})
    again = await alice.call("POST", "/v1/chats", {"type": "direct", "members": ["bob", "alice"]})
    mirrored = await bob.call("POST", "/v1/chats", {"type": "direct", "members": ["alice"]})
    assert (made.status_code, again.status_code, mirrored.status_code) == (201, 200, 200)
    assert made.json() == again.json()
    assert mirrored.json()["chat_id"] == made.json()["chat_id"]
    assert (made.json()["members"], mirrored.json()["members"]) == (["bob"], ["alice"])
    assert made.json().keys() == {
        "chat_id", "type", "name", "members", "member_count", "role", "last_activity_at",
        "last_message", "unread", "unread_exact", "muted_until", "created_at", "created_by",
        "deleted_user", "updated_at", "message_count", "others", "marked_unread", "hidden",
        "unread_mentions", "mute_except_mentions", "frozen", "slow_mode_seconds",
    }  # fmt: skip


async def test_a_group_has_a_name_an_owner_and_each_member_once(rest: Rest) -> None:
    alice, _ = await rest.users("alice", "bob")
    wish = {"type": "group", "name": "Team", "members": ["bob", "bob", "alice"]}
    made = await alice.call("POST", "/v1/chats", wish)
    assert made.status_code == 201
    row = made.json()
    assert (row["name"], row["role"], row["members"], row["member_count"]) == (
        "Team",
        "owner",
        ["bob"],
        2,
    )
    assert (row["created_by"], row["message_count"]) == ("alice", 0)
    assert row["created_at"] == row["updated_at"] == row["last_activity_at"]
    assert await alice.ok("GET", f"/v1/chats/{row['chat_id']}") == row
    again = await alice.call("POST", "/v1/chats", wish)
    assert again.json()["chat_id"] != row["chat_id"]


@pytest.mark.parametrize(
    ("wish", "expected", "pointer"),
    [
        ({"type": "direct", "members": []}, INVALID, "/members"),
        ({"type": "direct", "members": ["bob", "carol"]}, INVALID, "/members"),
        ({"type": "direct", "members": ["alice"]}, INVALID, "/members"),
        ({"type": "direct", "members": ["bob"], "name": "x"}, INVALID, "/name"),
        ({"type": "group", "members": ["bob"]}, INVALID, "/name"),
        ({"type": "group", "members": ["bob"], "name": " "}, INVALID, "/name"),
        ({"type": "group", "members": [], "name": "x" * 201}, INVALID, "/name"),
        ({"type": "group", "members": [], "name": "a\nb"}, INVALID, "/name"),
        ({"type": "channel", "members": []}, INVALID, "/type"),
        ({"type": "group", "name": "x", "members": ["bob", "a b"]}, INVALID, "/members/1"),
        ({"type": "group", "name": "x", "members": ["bob\n"]}, INVALID, "/members/0"),
        ({"type": "group", "name": "x", "members": ["other:bob"]}, INVALID, "/members/0"),
        ({"type": "group", "name": "x", "members": ["ghost"]}, (404, "user.not_found"), None),
        ({"type": "direct", "members": ["ghost"]}, (404, "user.not_found"), None),
    ],
)
async def test_what_is_neither_is_refused(
    rest: Rest, wish: dict[str, object], expected: tuple[int, str], pointer: str | None
) -> None:
    alice, *_ = await rest.users("alice", "bob", "carol")
    answer = await alice.call("POST", "/v1/chats", wish)
    assert problem(answer) == expected
    assert [error["pointer"] for error in answer.json().get("errors", [])] == (
        [pointer] if pointer else []
    )


@pytest.mark.attack("D11")
async def test_users_of_another_tenant_are_not_there(rest: Rest) -> None:
    alice = await rest.user("alice")
    await rest.user("faraway", "other")
    wish = {"type": "direct", "members": ["faraway"]}
    assert await alice.refused("POST", "/v1/chats", wish) == (404, "user.not_found")


async def test_a_group_has_at_most_a_thousand_members(rest: Rest) -> None:
    alice = await rest.user("alice")
    wish = {"type": "group", "name": "All", "members": [f"u{n}" for n in range(1_000)]}
    assert await alice.refused("POST", "/v1/chats", wish) == (409, "limit.reached")


async def test_the_same_request_makes_one_chat(rest: Rest) -> None:
    alice, _ = await rest.users("alice", "bob")
    wish = {"type": "group", "name": "Once", "members": ["bob"]}
    key = {"Idempotency-Key": "request-1"}
    made = await alice.call("POST", "/v1/chats", wish, headers=key)
    again = await alice.call("POST", "/v1/chats", wish, headers=key)
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json()["chat_id"] == made.json()["chat_id"]

    other = await alice.call("POST", "/v1/chats", {**wish, "name": "Twice"}, headers=key)
    assert problem(other) == (409, "request.conflict")
    bobs = await (await rest.user("bob")).call("POST", "/v1/chats", wish, headers=key)
    assert bobs.status_code == 201
    rest.clock.time += limits.REQUEST_KEY_MS
    fresh = await rest.user("alice")
    later = await fresh.call("POST", "/v1/chats", wish, headers=key)
    assert later.status_code == 201


@pytest.mark.attack("D02")
async def test_a_repeat_shows_nothing_to_whoever_has_left(rest: Rest) -> None:
    alice, _ = await rest.users("alice", "bob")
    wish = {"type": "group", "name": "Left", "members": ["bob"]}
    key = {"Idempotency-Key": "request-2"}
    made = await alice.call("POST", "/v1/chats", wish, headers=key)
    await alice.ok("DELETE", f"/v1/chats/{made.json()['chat_id']}/members/alice")
    again = await alice.call("POST", "/v1/chats", wish, headers=key)
    assert problem(again) == (404, "chat.not_found")


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\x80"])
async def test_a_request_key_has_a_form(rest: Rest, key: str) -> None:
    alice = await rest.user("alice")
    wish = {"type": "group", "name": "Once", "members": []}
    raw = {"Idempotency-Key": key.encode("latin-1")}
    answer = await alice.call("POST", "/v1/chats", wish, headers=raw)  # type: ignore[arg-type]
    assert problem(answer) == INVALID


async def test_the_chat_list_is_paged_by_activity(rest: Rest) -> None:
    lea, mo = await rest.users("lea", "mo")
    chats = []
    for number in range(5):
        rest.clock.time += 1_000
        chats.append(await lea.group("mo", name=f"G{number}"))
    rest.clock.time += 1_000
    await mo.send(chats[0], "news")

    first = await lea.ok("GET", "/v1/chats?limit=2")
    second = await lea.ok("GET", f"/v1/chats?limit=2&cursor={first['next_cursor']}")
    third = await lea.ok("GET", f"/v1/chats?limit=2&cursor={second['next_cursor']}")

    rows = first["data"] + second["data"] + third["data"]
    assert [row["chat_id"] for row in rows] == [chats[n] for n in (0, 4, 3, 2, 1)]
    assert third["next_cursor"] is None
    assert rows == (await lea.ok("GET", "/v1/chats"))["data"]
    top = rows[0]
    assert (top["unread"], top["unread_exact"]) == (1, True)
    assert top["last_message"] == {
        "sequence": 2,
        "sender_id": "mo",
        "preview": canary("news"),
        "created_at": top["last_activity_at"],
        "gone": None,
    }
    assert rows[1]["last_message"] is None


@pytest.mark.attack("D17")
async def test_a_cursor_is_good_for_its_own_list_only(rest: Rest) -> None:
    ina, jon = await rest.users("ina", "jon")
    for _ in range(2):
        await ina.group("jon")
    cursor = (await ina.ok("GET", "/v1/chats?limit=1"))["next_cursor"]
    flipped = ("B" if cursor[0] == "A" else "A") + cursor[1:]
    invalid = (400, "cursor.invalid")
    assert await jon.refused("GET", f"/v1/chats?cursor={cursor}") == invalid
    for forged in (flipped, cursor[:-4], "", "x", "%00", "%C3%A9", "A" * 2_000):
        assert await ina.refused("GET", f"/v1/chats?cursor={forged}") == invalid
    assert await ina.ok("GET", f"/v1/chats?cursor={cursor}")


@pytest.mark.attack("D05")
async def test_a_chat_shows_whom_it_is_with(rest: Rest) -> None:
    names = [f"p{number:02}" for number in range(12)]
    ola, *people = await rest.users("ola", *names)
    await people[0].ok("PATCH", "/v1/me", {"display_name": "Pe", "avatar_url": "https://a.example"})
    chat = await ola.group(*names)
    shown = (await ola.ok("GET", f"/v1/chats/{chat}"))["others"]
    assert [one["user_id"] for one in shown] == names[: limits.LISTED_MEMBERS_MAX]
    pe = {"user_id": "p00", "display_name": "Pe", "avatar_url": "https://a.example"}
    assert shown[0] == pe
    (row,) = (await ola.ok("GET", "/v1/chats"))["data"]
    assert row["others"] == shown[: limits.LISTED_OTHERS_MAX]
    await people[0].ok("PATCH", "/v1/me", {"avatar_url": None})
    (row,) = (await ola.ok("GET", "/v1/chats"))["data"]
    assert row["others"][0] == {**pe, "avatar_url": None}


async def test_a_group_is_renamed_by_admins_and_owners(rest: Rest) -> None:
    alice, bob, carol = await rest.users("alice", "bob", "carol")
    chat = await alice.group("bob", "carol")
    await alice.ok("PUT", f"/v1/chats/{chat}/members/bob", {"role": "admin"})
    path = f"/v1/chats/{chat}"
    assert (await alice.ok("PATCH", path, {"name": "One"}))["name"] == "One"
    assert (await bob.ok("PATCH", path, {"name": "Two"}))["name"] == "Two"
    assert await carol.refused("PATCH", path, {"name": "Three"}) == (403, "auth.forbidden")
    assert await alice.refused("PATCH", path, {"name": ""}) == INVALID
    assert (await carol.ok("GET", path))["name"] == "Two"
    direct = await alice.direct("bob")
    assert await alice.refused("PATCH", f"/v1/chats/{direct}", {"name": "x"}) == (
        409,
        "chat.direct",
    )


async def test_a_chat_is_muted_for_one_member(rest: Rest) -> None:
    alice, bob = await rest.users("alice", "bob")
    chat = await alice.direct("bob")
    path, until = f"/v1/chats/{chat}/mute", rfc3339(rest.clock.time + 60_000)
    muted = {"muted_until": until, "except_mentions": False}
    assert await alice.ok("PUT", path, {"until": until}) == muted
    assert (await alice.ok("GET", f"/v1/chats/{chat}"))["muted_until"] == until
    assert (await bob.ok("GET", f"/v1/chats/{chat}"))["muted_until"] is None
    excepted = {"until": until, "except_mentions": True}
    assert await alice.ok("PUT", path, excepted) == {**muted, "except_mentions": True}
    assert (await alice.ok("GET", f"/v1/chats/{chat}"))["mute_except_mentions"] is True
    unmuted = {"until": None, "except_mentions": True}
    assert await alice.ok("PUT", path, unmuted) == {"muted_until": None, "except_mentions": False}
    assert (await alice.ok("GET", f"/v1/chats/{chat}"))["muted_until"] is None


@pytest.mark.parametrize(
    "until",
    ["", "tomorrow", "2030-01-01", "2030-01-01T00:00:00", "1960-01-01T00:00:00Z", 1_900_000_000],
)
async def test_a_mute_ends_at_a_time_with_an_offset(rest: Rest, until: object) -> None:
    alice = await rest.user("alice")
    answer = await alice.call("PUT", f"/v1/chats/{await alice.group()}/mute", {"until": until})
    assert problem(answer) == INVALID
    assert answer.json()["errors"][0]["pointer"] == "/until"


async def test_a_full_disk_is_said_to_be_one(tmp_path: Path) -> None:
    async with open_rest(tmp_path) as rest:
        alice, _ = await rest.users("alice", "bob")
        chat = await alice.direct("bob")
        rest.disk.is_full = True
        await _expect_unavailable(
            alice, "POST", "/v1/chats", {"type": "direct", "members": ["bob"]}
        )
        body = {"client_message_id": "m1", "content": canary("lost")}
        await _expect_unavailable(alice, "POST", f"/v1/chats/{chat}/messages", body)


async def _expect_unavailable(actor: Actor, method: str, path: str, body: object) -> None:
    answer = await actor.call(method, path, body)
    assert problem(answer) == (503, "store.unavailable")
    assert int(answer.headers["retry-after"]) >= 1
