# SPDX-License-Identifier: Apache-2.0
"""The preferences of users in inboxes, on DynamoDB.

They are an attribute of the item with the user's read marks, which is read for every list and
count anyway. Another attribute, in the item of the inbox, says whether there are preferences at
all. Delivery therefore reads nothing in an inbox in which nobody has any.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidings.model.ids import UserKey
from tidings.model.preferences import Preferences
from tidings.ports.preferences import PreferenceStore
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.inbox.inbox_patterns import (
    BEGIN_PREFERENCES,
    PUT_PREFERENCES,
    READ_PREFERENCES,
)
from tidings.stores.dynamodb.inbox.items import IS_THERE, config_key, marks_key

PREFERENCES: Final = "preferences"
BEGUN: Final = "has_preferences"
_preferences = msgspec.json.Decoder(Preferences)


class DynamoPreferences:
    """Stores preferences as JSON."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def put(self, user: UserKey, inbox: str, preferences: Preferences) -> None:
        await self._dynamo.update(
            PUT_PREFERENCES,
            marks_key(user, inbox),
            "SET #preferences = :preferences",
            values={":preferences": preferences_to_attribute(preferences)},
        )

    async def replace(
        self, user: UserKey, inbox: str, before: Preferences | None, after: Preferences
    ) -> bool:
        stored = preferences_to_attribute(after)
        values, condition = {":preferences": stored}, "attribute_not_exists(#preferences)"
        if before is not None:
            values[":before"] = preferences_to_attribute(before)
            condition = "#preferences = :before"
        key, update = marks_key(user, inbox), "SET #preferences = :preferences"
        try:
            await self._dynamo.update(PUT_PREFERENCES, key, update, condition, values)
        except ConditionFailed as failed:
            # The first attempt may have been stored, although its answer was lost.
            return failed.item is not None and failed.item.get(PREFERENCES) == stored
        return True

    async def begin(self, tenant: str, inbox: str) -> bool:
        key, values = config_key(tenant, inbox), {":true": True}
        update = "SET #has_preferences = :true"
        try:
            await self._dynamo.update(BEGIN_PREFERENCES, key, update, IS_THERE, values)
        except ConditionFailed:
            return False
        return True

    async def of(self, users: Sequence[UserKey], inbox: str) -> Mapping[UserKey, Preferences]:
        keys = [marks_key(user, inbox) for user in users]
        found = {
            item["pk"]: preferences_in(item)
            for item in await self._dynamo.batch_get(READ_PREFERENCES, keys)
        }
        chosen = ((user, found.get(key["pk"])) for user, key in zip(users, keys, strict=True))
        return {user: preferences for user, preferences in chosen if preferences is not None}


def preferences_to_attribute(preferences: Preferences) -> str:
    """Convert preferences to the value of their attribute."""
    return msgspec.json.encode(preferences).decode()


def preferences_in(item: Item) -> Preferences | None:
    """Return the preferences in the item of a user's read marks."""
    text = item.get(PREFERENCES)
    return None if text is None else _preferences.decode(text)


_conforms: type[PreferenceStore] = DynamoPreferences
