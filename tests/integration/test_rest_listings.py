# SPDX-License-Identifier: Apache-2.0
"""Lists over REST: complete, page by page, and about nothing that the caller may not see."""

from typing import Any

import pytest

from tests.integration.engines import engine as engine
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
    assert found[0] == await rest.root.ok("GET", "/v1/tenants/list-c")


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


@pytest.mark.parametrize("prefix", ["a%20b", "a:b", "%C3%A9", "x" * 65, "a%23"])
async def test_a_prefix_that_no_id_has_is_refused(rest: Rest, prefix: str) -> None:
    backend = await rest.tenant()
    assert await backend.refused("GET", f"/v1/tenants/acme/users?prefix={prefix}") == INVALID


LISTS = ["/v1/tenants", "/v1/tenants/acme/keys", "/v1/tenants/acme/users"]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [0, limits.PAGE_MAX + 1, "x"])
async def test_a_limit_out_of_range_is_refused(rest: Rest, path: str, limit: object) -> None:
    await rest.tenant()
    assert await rest.root.refused("GET", f"{path}?limit={limit}") == INVALID


@pytest.mark.attack("D17")
async def test_a_cursor_works_for_its_own_list_only(rest: Rest) -> None:
    for tenant in ("acme", "acme-2"):
        backend = await rest.tenant(tenant)
        for name in ("a", "b", "bc"):
            await backend.ok("PUT", f"/v1/tenants/{tenant}/users/{name}")
        await rest.root.ok("POST", f"/v1/tenants/{tenant}/keys")
    lists = [*LISTS, "/v1/tenants/acme/users?prefix=b", "/v1/tenants/acme-2/users"]
    lists.append("/v1/tenants/acme-2/keys")
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
