# SPDX-License-Identifier: Apache-2.0
"""Lists over REST: complete, page by page, and about nothing that the caller may not see."""

from typing import Any

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.inbox_world import open_newsroom, to_users
from tests.integration.rest_world import Actor, Json, Rest
from tidings.model import limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID = (400, "request.invalid")
WRONG_CURSOR = (400, "cursor.invalid")


async def pages(actor: Actor, path: str, limit: int = 2) -> list[list[Json]]:
    """Every page of a list."""
    joint = "&" if "?" in path else "?"
    found, more = [], ""
    while True:
        page: Json = await actor.ok("GET", f"{path}{joint}limit={limit}{more}")
        assert page.keys() == {"data", "next_cursor"}
        found.append(page["data"])
        if page["next_cursor"] is None:
            return found
        more = f"&cursor={page['next_cursor']}"


async def rows(actor: Actor, path: str, limit: int = 2) -> list[Json]:
    return [row for page in await pages(actor, path, limit) for row in page]


def named(records: list[Json], field: str) -> list[Any]:
    return [record[field] for record in records]


async def test_root_lists_the_tenants_newest_first(rest: Rest) -> None:
    for name in ("list-b", "list-a", "list-c"):
        rest.clock.time += 1
        await rest.root.ok("PUT", f"/v1/tenants/{name}", {"name": name.upper()})

    found = await rows(rest.root, "/v1/tenants")

    assert named(found, "tenant")[:3] == ["list-c", "list-a", "list-b"]
    alone = await rest.root.ok("GET", "/v1/tenants/list-c")
    assert found[0] == {name: alone[name] for name in alone if name != "used"}


async def test_keys_are_listed_without_the_keys(rest: Rest) -> None:
    backend = await rest.tenant("keyring")
    made = []
    for _ in range(3):
        rest.clock.time += 1
        made.append(await rest.root.ok("POST", "/v1/tenants/keyring/keys"))
    await rest.root.ok("DELETE", f"/v1/tenants/keyring/keys/{made[0]['key_id']}")

    found = await rows(backend, "/v1/tenants/keyring/keys")

    assert named(found, "key_id")[:3] == [key["key_id"] for key in reversed(made)]
    assert len(found) == 4
    assert all(row.keys() == {"key_id", "created_at", "revoked_at"} for row in found)
    assert [row["revoked_at"] is None for row in found] == [True, True, False, True]
    answer = await backend.call("GET", "/v1/tenants/keyring/keys")
    assert not any(key["key"] in answer.text or key["key"][-8:] in answer.text for key in made)


async def test_users_are_listed_by_id_and_prefix(rest: Rest) -> None:
    backend, other = await rest.tenant("people"), await rest.tenant("people-2")
    for name in ("bob", "ann", "Zed", "bo"):
        await backend.ok("PUT", f"/v1/tenants/people/users/{name}", {"display_name": name})
    await other.ok("PUT", "/v1/tenants/people-2/users/bobby")
    await rest.user("by-token", "people")

    found = await rows(backend, "/v1/tenants/people/users")

    assert named(found, "user_id") == ["Zed", "ann", "bo", "bob", "by-token"]
    ann = await backend.ok("PUT", "/v1/tenants/people/users/ann")
    assert found[1] == ann
    begun = await rows(rest.root, "/v1/tenants/people/users?prefix=bo", 1)
    assert named(begun, "user_id") == ["bo", "bob"]
    assert await rows(backend, "/v1/tenants/people/users?prefix=no") == []


async def test_a_tenant_lists_its_chats_without_content(rest: Rest) -> None:
    ann, bob, cat = [await rest.user(name, "talks") for name in ("ann", "bob", "cat")]
    made = []
    for make in (ann.group("bob", name="First"), ann.direct("cat"), bob.group(name="Third")):
        rest.clock.time += 1
        made.append(await make)
    await ann.send(made[1], "m1")
    await (await rest.user("ann", "talks-2")).group(name="Elsewhere")
    backend = await rest.tenant("talks")

    found = await rows(backend, "/v1/tenants/talks/chats")

    assert named(found, "chat_id") == made[::-1]
    first = found[-1]
    assert first.pop("created_at") < found[0]["created_at"]
    assert first == {
        "chat_id": made[0],
        "type": "group",
        "name": "First",
        "created_by": "ann",
        "member_count": 2,
    }
    of_ann = await rows(rest.root, "/v1/tenants/talks/chats?user_id=ann", 1)
    assert named(of_ann, "chat_id") == [made[1], made[0]]
    assert named(await rows(backend, "/v1/tenants/talks/chats?user_id=bob"), "name") == [
        "Third",
        "First",
    ]
    for nobody in ("nobody", "a:b", "..", ""):
        asked = f"/v1/tenants/talks/chats?user_id={nobody}"
        assert await backend.refused("GET", asked) == (404, "user.not_found")
    await backend.ok("DELETE", f"/v1/tenants/talks/chats/{made[1]}")
    left = await rows(backend, "/v1/tenants/talks/chats")
    assert named(left, "chat_id") == [made[2], made[0]]
    assert await rows(backend, "/v1/tenants/talks/chats?user_id=cat") == []
    await cat.ok("GET", "/v1/chats")


async def test_inboxes_are_listed_for_the_tenant_and_for_its_users(rest: Rest) -> None:
    backend = await rest.tenant("boxes")
    schema = {"type": "object", "properties": {"color": {"type": "string"}}}
    for name, more in (("b", {}), ("a", {"message_schema": schema}), ("c", {"keep_days": 3})):
        body = {"title": name.upper(), "categories": ["x"], **more}
        await backend.ok("PUT", f"/v1/tenants/boxes/inboxes/{name}", body)
    await (await rest.tenant("boxes-2")).ok(
        "PUT", "/v1/tenants/boxes-2/inboxes/other", {"title": "Other"}
    )

    found = await rows(backend, "/v1/tenants/boxes/inboxes")

    assert named(found, "inbox") == ["a", "b", "c"]
    assert found == [await backend.ok("GET", f"/v1/tenants/boxes/inboxes/{name}") for name in "abc"]
    seen = await rows(await rest.user("ann", "boxes"), "/v1/inboxes")
    fields = ("inbox", "title", "description", "schema_version", "categories")
    assert seen == [{field: one[field] for field in fields} for one in found]


async def test_a_tenant_lists_what_it_posted(rest: Rest) -> None:
    room = await open_newsroom(rest, "posted", "press")
    ids = []
    for number in range(7):
        rest.clock.time += 10
        if number % 2:
            ids.append(await room.tell_everyone(f"t{number}", category="offers"))
        else:
            posted = await room.post(to_users(["ann", "bob"], f"t{number}", sender="Me"))
            ids.append(posted["id"])
    path = "/v1/tenants/press/inboxes/posted/notifications"
    for limit in (1, 2, 3):
        assert named(await rows(room.actor, path, limit), "id") == ids[::-1]
    found = await rows(room.actor, path, 100)
    assert named(found, "audience") == ["users", "everyone"] * 3 + ["users"]
    assert [one["message"]["title"] for one in found] == [f"t{n}" for n in range(6, -1, -1)]
    assert found[0]["recipients"] == 2
    assert (found[0]["sender"], found[1]["category"]) == ("Me", "offers")

    for number in (6, 5):
        await room.redact(ids[number])
    found = await rows(room.actor, path)
    assert named(found, "id") == ids[::-1]
    assert named(found, "redacted") == [True, True] + [False] * 5
    assert named(found, "message")[:2] == [None, None]

    missing = "/v1/tenants/press/inboxes/none/notifications"
    assert await room.actor.refused("GET", missing) == (404, "inbox.not_found")
    rest.clock.time += limits.KEEP_DAYS_MAX * limits.DAY_MS
    assert await rows(rest.root, path) == []


@pytest.mark.parametrize("prefix", ["a%20b", "a:b", "%C3%A9", "x" * 65, "a%23"])
async def test_a_prefix_that_no_id_has_is_refused(rest: Rest, prefix: str) -> None:
    backend = await rest.tenant()
    assert await backend.refused("GET", f"/v1/tenants/acme/users?prefix={prefix}") == INVALID


OF_TENANTS = ("keys", "users", "users?prefix=b", "chats", "chats?user_id=a", "inboxes")
POSTED = "inboxes/one/notifications"
LISTS = ["/v1/tenants", *(f"/v1/tenants/acme/{part}" for part in (*OF_TENANTS, POSTED))]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [0, limits.PAGE_MAX + 1, "x"])
async def test_a_limit_out_of_range_is_refused(rest: Rest, path: str, limit: object) -> None:
    await rest.tenant()
    joint = "&" if "?" in path else "?"
    assert await rest.root.refused("GET", f"{path}{joint}limit={limit}") == INVALID


@pytest.mark.attack("D17")
async def test_a_cursor_works_for_its_own_list_only(rest: Rest) -> None:
    for tenant in ("acme", "acme-2"):
        backend = await rest.tenant(tenant)
        for name in ("a", "b", "bc"):
            await backend.ok("PUT", f"/v1/tenants/{tenant}/users/{name}")
        await rest.root.ok("POST", f"/v1/tenants/{tenant}/keys")
        for inbox in ("one", "two"):
            room = await open_newsroom(rest, inbox, tenant)
            for _ in range(2):
                await room.tell_everyone("Hello")
                await (await rest.user("a", tenant)).group("b")
    parts = (*OF_TENANTS, POSTED)
    lists = [*LISTS, *(f"/v1/tenants/acme-2/{part}" for part in parts)]
    lists.append("/v1/tenants/acme/inboxes/two/notifications")
    for path in lists:
        joint = "&" if "?" in path else "?"
        cursor = (await rest.root.ok("GET", f"{path}{joint}limit=1"))["next_cursor"]
        assert cursor is not None
        changed = ("B" if cursor[0] == "A" else "A") + cursor[1:]
        assert await rest.root.refused("GET", f"{path}{joint}cursor={changed}") == WRONG_CURSOR
        for elsewhere in lists:
            if elsewhere != path:
                end = "&" if "?" in elsewhere else "?"
                asked = f"{elsewhere}{end}cursor={cursor}"
                assert await rest.root.refused("GET", asked) == WRONG_CURSOR


@pytest.mark.attack("D17")
async def test_a_user_pages_with_their_own_cursors(rest: Rest) -> None:
    backend = await rest.tenant("own")
    for inbox in "abc":
        await backend.ok("PUT", f"/v1/tenants/own/inboxes/{inbox}", {"title": inbox})
    ann, bob = await rest.user("ann", "own"), await rest.user("bob", "own")
    cursor = (await ann.ok("GET", "/v1/inboxes?limit=1"))["next_cursor"]
    rest_of_it = await ann.ok("GET", f"/v1/inboxes?cursor={cursor}")
    assert named(rest_of_it["data"], "inbox") == ["b", "c"]
    assert await bob.refused("GET", f"/v1/inboxes?cursor={cursor}") == WRONG_CURSOR
    assert await ann.refused("GET", f"/v1/me/devices?cursor={cursor}") == WRONG_CURSOR
    of_tenant = (await backend.ok("GET", "/v1/tenants/own/inboxes?limit=1"))["next_cursor"]
    assert await ann.refused("GET", f"/v1/inboxes?cursor={of_tenant}") == WRONG_CURSOR
