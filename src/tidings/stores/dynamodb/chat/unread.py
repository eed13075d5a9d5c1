# SPDX-License-Identifier: Apache-2.0
"""Counts unread messages in the log, and sees where the log ends."""

from collections import Counter
from typing import Final

from tidings.model import limits
from tidings.model.chats import Receipt, UnreadFound, found_in_log, unread_without_a_look
from tidings.model.entries import Head
from tidings.model.ids import ChatId
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.patterns import COUNT_ALL_UNREAD, COUNT_UNREAD

# The same rule as model.chats.counts_as_unread; the contract suite checks both.
_IS_UNREAD: Final = (
    "#kind = :message AND #sender <> :reader AND attribute_not_exists(#redacted)"
    " AND (attribute_not_exists(#expires_at) OR #expires_at > :now)"
)


async def unread_of(
    dynamo: Dynamo, chat: ChatId, head: Head, receipt: Receipt, now: int
) -> UnreadFound:
    """Return the user's unread messages; read the log only if head and receipt are not enough."""
    known = unread_without_a_look(head, receipt)
    if known is not None:
        return UnreadFound(known)
    return await count_unread(dynamo, chat, receipt, now)


async def count_unread(dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int) -> UnreadFound:
    """Count the unread messages among the first thousand entries after the read mark."""
    found, _ = await look_for_unread(dynamo, chat, receipt, now)
    return found


async def look_for_unread(
    dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int, up_to: int | None = None
) -> tuple[UnreadFound, int]:
    """Count the unread messages among the first thousand entries after the read mark.

    Returns the count, and the sequence of the last of these entries. `up_to` names the last entry
    to count; the read is then strongly consistent, so that no entry before it is missing.
    """
    last = receipt.unread_after + limits.UNREAD_ENTRIES_MAX
    found = await dynamo.filtered(
        COUNT_UNREAD if up_to is None else COUNT_ALL_UNREAD,
        "#chat_id = :chat AND #sequence BETWEEN :first AND :last",
        {
            ":chat": chat,
            ":first": receipt.unread_after + 1,
            ":last": last if up_to is None else min(last, up_to),
            ":message": "message",
            ":reader": receipt.user,
            ":now": now,
        },
        only=_IS_UNREAD,
        shown="#sender, #box_key",
    )
    # Expiring messages of earlier versions do not name their key.
    unread = found_in_log(Counter((item["sender"], item.get("box_key", 0)) for item in found.items))
    return unread, receipt.unread_after + found.looked_at
