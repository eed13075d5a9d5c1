# SPDX-License-Identifier: Apache-2.0
"""The rule for the one copy of content that exists, checked over whole tables."""

from tidings.stores.dynamodb.chat.items import PREVIEW, to_entry, to_last_message
from tidings.stores.dynamodb.chat.pages import item_at
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item

_SCANS = (
    Pattern("all_rows", "Scan", ("delivery_state",), "a check", strong=True),
    Pattern("all_chats", "Scan", ("chats",), "a check", strong=True),
)


async def broken_previews(dynamo: Dynamo) -> list[str]:
    """Say which copies break the rule.

    A copy is of the message that its head calls the last, and equals it: not redacted, not edited
    since, not expiring.
    """
    broken = []
    for pattern in _SCANS:
        async for page in dynamo.scan(pattern, 0, 1, 1_000):
            broken += [
                f"{item['chat_id']} of {item.get('user_id', 'all')}: {reason}"
                for item in page
                if PREVIEW in item and (reason := await _reason(dynamo, item))
            ]
    return broken


async def _reason(dynamo: Dynamo, item: Item) -> str:
    copied = to_last_message(item)
    if copied is None:
        return "a copy of a message that is not the last, or that was changed"
    found = await item_at(dynamo, item["chat_id"], copied.sequence)
    if found is None:
        return "a copy of nothing"
    entry = to_entry(found)
    if entry.redacted or entry.expires_at is not None:
        return "a copy of content that is gone or expires"
    fields = ("sender", "created_at", "number", "client_message_id", "box", "box_key")
    differ = [name for name in fields if getattr(entry, name) != getattr(copied, name)]
    return f"another {differ}" if differ else ""
