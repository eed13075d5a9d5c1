# SPDX-License-Identifier: Apache-2.0
"""Access patterns for the preferences of users in inboxes."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)

PUT_PREFERENCES: Final = Pattern(
    "put_preferences", "UpdateItem", _INBOX, "a user's preferences in an inbox change"
)
BEGIN_PREFERENCES: Final = Pattern(
    "begin_preferences",
    "UpdateItem",
    _INBOX,
    "the first user of an inbox has preferences: delivery has to ask for them",
)
READ_PREFERENCES: Final = Pattern(
    "read_preferences",
    "BatchGetItem",
    _INBOX,
    "preferences of the users who get a copy, or a broadcast on their connections",
)
