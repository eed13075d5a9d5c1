# SPDX-License-Identifier: Apache-2.0
"""Receipts and unread: how far a user is in a chat, and what is left.

A receipt only moves forward. Unread is a subtraction, and where that is not zero a look at the
log: nothing is ever counted up or down, so nothing can drift.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from tidings.model import limits
from tidings.model.entries import Entry, Head
from tidings.model.ids import UserKey

Status = Literal["sent", "delivered", "read"]


class Receipt(msgspec.Struct, frozen=True):
    """How far one user has received and read one chat."""

    user: UserKey
    delivered: int
    read: int
    read_number: int
    """How many messages the log holds up to `read`."""


class Unread(msgspec.Struct, frozen=True):
    """How many messages a user has not read; an upper bound if not exact."""

    count: int
    exact: bool = True


NOTHING_UNREAD = Unread(0)


def unread_without_a_look(head: Head, receipt: Receipt) -> Unread | None:
    """Unread as far as the numbers alone tell; None if the log has to be looked at."""
    left = head.number - receipt.read_number
    if left <= 0:
        return NOTHING_UNREAD
    if head.sequence - receipt.read > limits.UNREAD_ENTRIES_MAX:
        return Unread(left, exact=False)
    return None


def unread_of_page(chats: Iterable[tuple[Head, Receipt]]) -> list[Unread | None]:
    """Unread in each chat of a list, as far as it is known; None where the log has to be looked at.

    What a whole page looks through is bounded. A chat of which little is unread is always counted;
    those of which much is, one after the other, until the page has had enough.
    """
    left = limits.LIST_UNREAD_ENTRIES_MAX
    found: list[Unread | None] = []
    for head, receipt in chats:
        unread = unread_without_a_look(head, receipt)
        entries = head.sequence - receipt.read
        if unread is None and entries > limits.LISTED_UNREAD_ENTRIES_MIN:
            if entries > left:
                unread = Unread(head.number - receipt.read_number, exact=False)
            else:
                left -= entries
        found.append(unread)
    return found


def counts_as_unread(entry: Entry, reader: UserKey, now: int) -> bool:
    """Whether this entry is a message the reader has yet to read and could read."""
    return (
        entry.kind == "message"
        and entry.sender != reader
        and not entry.redacted
        and not entry.expired(now)
    )


def status(sequence: int, sender: UserKey, receipts: Iterable[Receipt]) -> Status:
    """What has become of a message: the least that any other member has done with it."""
    others = [receipt for receipt in receipts if receipt.user != sender]
    if not others:
        return "sent"
    if all(receipt.read >= sequence for receipt in others):
        return "read"
    if all(max(receipt.delivered, receipt.read) >= sequence for receipt in others):
        return "delivered"
    return "sent"
