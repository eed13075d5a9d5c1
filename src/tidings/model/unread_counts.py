# SPDX-License-Identifier: Apache-2.0
"""Which messages count as unread, and when a count needs no read of the log."""

from collections.abc import Iterable

from tidings.model import limits
from tidings.model.chats import NOTHING_UNREAD, Receipt, Unread, UnreadByKey, UnreadFound
from tidings.model.entries import Entry, Head
from tidings.model.ids import UserKey
from tidings.model.refusals import Invalid


def found_in_log(
    by_key: UnreadByKey, up_to: int, mentions_by_key: UnreadByKey | None = None
) -> UnreadFound:
    """Return the unread messages that were found in the log up to a sequence. `by_key` has their
    number for each data key, and `mentions_by_key` the number of those that mention the user."""
    mentions = mentions_by_key or {}
    unread = Unread(sum(by_key.values()), mentions=sum(mentions.values()))
    return UnreadFound(unread, by_key, mentions, up_to)


def unread_without_a_look(
    head: Head, receipt: Receipt, entries_max: int | None = None
) -> Unread | None:
    """Return the unread count if no read of the log is necessary; None if the log must be read.

    If nothing is unread, head and receipt show this. If more than `entries_max` entries follow the
    read mark (by default `limits.UNREAD_ENTRIES_MAX`), the log is not read either, and the count is
    an upper bound.
    """
    left = head.number - receipt.unread_after_number
    if left <= 0:
        return NOTHING_UNREAD
    most = limits.UNREAD_ENTRIES_MAX if entries_max is None else entries_max
    if head.sequence - receipt.unread_after > most:
        return Unread(left, exact=False)
    return None


def unread_of_page(chats: Iterable[tuple[Head, Receipt]]) -> list[Unread | None]:
    """Return the unread count of each chat on a page of the chat list; None where the log must be
    read.

    The number of log entries that are read for a page is limited. Chats with few entries after the
    read mark are always counted in the log. Chats with more are counted in order until the limit is
    used up; the remaining chats get an upper bound.
    """
    left = limits.LIST_UNREAD_ENTRIES_MAX
    found: list[Unread | None] = []
    for head, receipt in chats:
        unread = unread_without_a_look(head, receipt)
        entries = head.sequence - receipt.unread_after
        if unread is None and entries > limits.LISTED_UNREAD_ENTRIES_MIN:
            if entries > left:
                unread = Unread(head.number - receipt.unread_after_number, exact=False)
            else:
                left -= entries
        found.append(unread)
    return found


def check_unread_from(first: int, head: int, joined: int) -> None:
    """Refuse a sequence from which the user's unread messages cannot be counted.

    Raises:
        Invalid: The sequence is beyond the head, too far back, or before the user joined.
    """
    least = max(joined, head - limits.UNREAD_ENTRIES_MAX, 1)
    if not least <= first <= head:
        raise Invalid(f"from must be between {least} and {head}", "/from")


def counts_as_unread(entry: Entry, reader: UserKey, now: int) -> bool:
    """Return True if the entry is a message from somebody else, neither redacted nor expired.

    An erased message also counts here; it is subtracted where the data keys are known.
    """
    return (
        entry.kind == "message"
        and entry.sender != reader
        and not entry.redacted
        and not entry.expired(now)
    )
