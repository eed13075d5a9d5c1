# SPDX-License-Identifier: Apache-2.0
"""Counts unread messages in the log, and finds the end of the log."""

from collections import Counter
from typing import Final

from tidings.model import limits
from tidings.model.chats import Receipt, UnreadFound
from tidings.model.entries import EVERYONE, Head
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.unread_counts import found_in_log, unread_without_a_look
from tidings.stores.dynamodb.chat.packs import PACK, unread_in
from tidings.stores.dynamodb.chat.pages import item_up_to
from tidings.stores.dynamodb.client.dynamo import Dynamo, Filtered
from tidings.stores.dynamodb.patterns import COUNT_UNREAD

# The same rule as model.unread_counts.counts_as_unread; the contract suite checks both.
_IS_UNREAD: Final = (
    "#kind = :message AND #sender <> :reader AND attribute_not_exists(#redacted)"
    " AND (attribute_not_exists(#expires_at) OR #expires_at > :now)"
)


_Counts = Counter[tuple[UserKey, int]]


async def unread_of(
    dynamo: Dynamo, chat: ChatId, head: Head, receipt: Receipt, now: int
) -> UnreadFound:
    """Return the user's unread messages; read the log only if head and receipt are not enough."""
    known = unread_without_a_look(head, receipt)
    if known is not None:
        return UnreadFound(known, up_to=head.sequence)
    return await count_unread(dynamo, chat, receipt, now, up_to=head.sequence)


async def count_unread(
    dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int, *, up_to: int | None = None
) -> UnreadFound:
    """Count the unread messages up to a sequence.

    By default, only the first thousand entries after the read mark are considered.
    """
    last = receipt.unread_after + limits.UNREAD_ENTRIES_MAX if up_to is None else up_to
    if last <= receipt.unread_after:
        return found_in_log({}, last)
    counts, mentions, _ = await _counts(dynamo, chat, receipt, now, last)
    return found_in_log(counts, last, mentions)


async def count_to_end(
    dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int, *, up_to: int | None = None
) -> UnreadFound:
    """Count the unread messages among the first thousand entries after the read mark.

    Also returns the sequence of the last entry that was considered. With `up_to`, entries after
    this sequence are not considered.
    """
    last = receipt.unread_after + limits.UNREAD_ENTRIES_MAX
    last = last if up_to is None else min(last, up_to)
    counts, mentions, looked_at = await _counts(dynamo, chat, receipt, now, last)
    return found_in_log(counts, receipt.unread_after + looked_at, mentions)


async def _counts(
    dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int, last: int
) -> tuple[_Counts, _Counts, int]:
    """Return how many messages are unread, by sender and data key, how many of them mention the
    user, and how many entries there are from the read mark to the sequence `last`."""
    read, number = receipt.unread_after, receipt.unread_after_number
    found = await _read(dynamo, chat, receipt, now, last)
    single = [item for item in found.items if "packed" not in item and item["number"] > number]
    # Expiring messages of earlier versions do not name their key.
    counts = Counter((item["sender"], item.get("box_key", 0)) for item in single)
    names = {user_id(receipt.user), *EVERYONE}
    mentions = Counter(
        (item["sender"], item["box_key"])
        for item in single
        if not names.isdisjoint(item.get("mentions", ()))
    )
    entries = found.looked_at
    for pack in found.items:
        if "packed" in pack:
            counts.update(unread_in(pack, receipt.user, read, last))
            entries += len(pack["packed"]) - 1
    if read > 0 and found.items:
        entries -= read - found.items[0]["sequence"] + 1  # without the messages up to the read mark
    return counts, mentions, min(entries, last - read)


async def _read(dynamo: Dynamo, chat: ChatId, receipt: Receipt, now: int, last: int) -> Filtered:
    """Return the items of unread messages and all packs, up to the sequence `last`.

    The read is strong: a relaxed one may lack an entry, or know nothing of a redaction.

    The first item is the one that contains the entry at the read mark. If no item begins at that
    sequence, the entry is in the pack that begins before it.
    """
    read = receipt.unread_after
    found = await dynamo.filtered(
        COUNT_UNREAD,
        "#chat_id = :chat AND #sequence BETWEEN :first AND :last",
        {
            ":chat": chat,
            ":first": read,
            ":last": last,
            ":message": "message",
            ":pack": PACK,
            ":reader": receipt.user,
            ":read_number": receipt.unread_after_number,
            ":now": now,
        },
        only=f"{_IS_UNREAD} OR #kind = :pack OR #number = :read_number",
        shown="#sequence, #number, #sender, #box_key, #packed, #mentions",
    )
    if read == 0 or (found.items and found.items[0]["sequence"] == read):
        return found
    earlier = await item_up_to(dynamo, chat, read)
    return Filtered([*earlier, *found.items], found.looked_at + len(earlier))
