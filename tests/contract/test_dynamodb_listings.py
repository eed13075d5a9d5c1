# SPDX-License-Identifier: Apache-2.0
"""Lists on DynamoDB: lost answers, processes that died, and what older versions left."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.builders import new_chat_id
from tests.contract.lossy_tables import Place, a_place
from tests.contract.test_people import a_signing_key, a_tenant, an_api_key
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model.ids import UserKey, user_id, user_key
from tidings.ports.people import Listed
from tidings.stores.dynamodb.export.importing import fill_lists
from tidings.stores.dynamodb.identity.identity_patterns import ADD_LISTING
from tidings.stores.dynamodb.identity.items import api_key_item, tenant_item
from tidings.stores.dynamodb.identity.phone_claims import claim_item
from tidings.stores.dynamodb.identity.tenants import DynamoTenants
from tidings.stores.dynamodb.identity.users import DynamoUsers
from tidings.stores.dynamodb.listings import SHARDS, key_listing, user_listing, users_of
from tidings.stores.dynamodb.patterns import IMPORT_CHAT, IMPORT_TENANT, IMPORT_USER


class Lists:
    """What is listed, as one process sees it."""

    def __init__(self, place: Place) -> None:
        self.dynamo = place.dynamo
        self.tenants = DynamoTenants(place.dynamo, place.revocations)
        self.users = DynamoUsers(place.dynamo, place.revocations)

    async def names(self, limit: int = 100) -> list[str]:
        """The ids of all users, page by page."""
        found: list[str] = []
        after = None
        while True:
            page = await self.users.by_id("acme", prefix="", after=after, limit=limit)
            found += [user_id(user.user) for user in page.rows]
            after = page.end
            if after is None:
                return found


@pytest.fixture
async def place(dynamodb_endpoint: str) -> AsyncIterator[Place]:
    async with a_place(dynamodb_endpoint) as place:
        yield place


async def test_a_lost_answer_lists_nothing_twice(place: Place) -> None:
    place.transport.loses = True
    lists = Lists(place)
    await lists.tenants.put(a_tenant(), a_signing_key("s1"))
    await lists.tenants.add_key(an_api_key())
    await lists.users.put(ANN, display_name=None, phone_number=None, now=NOW)
    await lists.users.with_phone(BOB, "+491", NOW)
    await lists.users.close()

    assert await lists.tenants.newest(below=None, limit=9) == Listed([a_tenant()])
    keys = await lists.tenants.newest_keys("acme", below=None, limit=9)
    assert keys == Listed([an_api_key()])
    assert await lists.names() == sorted([user_id(ANN), user_id(BOB)])


async def test_what_was_never_created_is_not_listed(place: Place) -> None:
    """A process died between the item in the list and the thing itself."""
    lists = Lists(place)
    await lists.tenants.put(a_tenant(), a_signing_key("s1"))
    await lists.users.put(user_key("acme", "b"), display_name=None, phone_number=None, now=NOW)
    for name in ("a", "c", "d"):
        await place.dynamo.put(ADD_LISTING, user_listing(user_key("acme", name)))
    await place.dynamo.put(ADD_LISTING, key_listing(an_api_key()))

    assert await lists.names(limit=1) == ["b"]
    assert await lists.tenants.newest_keys("acme", below=None, limit=9) == Listed([])


async def test_what_existed_before_is_listed_after_the_upgrade(place: Place) -> None:
    lists = Lists(place)
    await place.dynamo.put(IMPORT_TENANT, tenant_item(a_tenant()))
    await place.dynamo.put(IMPORT_TENANT, api_key_item(an_api_key()))
    for user in (ANN, BOB):
        item = {"user_id": user, "created_at": NOW, "updated_at": NOW}
        await place.dynamo.put(IMPORT_USER, item)
    await place.dynamo.put(IMPORT_USER, claim_item("acme", "+491", ANN))
    for chat in ({"tenant": "acme"}, {"tenant": "acme", "deleted_at": NOW}, {"made": "x"}):
        await place.dynamo.put(IMPORT_CHAT, {"chat_id": new_chat_id(), **chat})
    assert await lists.names() == []

    for _ in range(2):
        assert await fill_lists(place.dynamo) == 5

    assert await lists.tenants.newest(below=None, limit=9) == Listed([a_tenant()])
    keys = await lists.tenants.newest_keys("acme", below=None, limit=9)
    assert keys == Listed([an_api_key()])
    assert await lists.names() == sorted([user_id(ANN), user_id(BOB)])


def test_the_users_of_a_tenant_spread_over_all_partitions() -> None:
    users = [UserKey(f"acme:u{number}") for number in range(100)]
    assert {user_listing(user)["pk"] for user in users} == set(users_of("acme"))
    assert len(users_of("acme")) == SHARDS
