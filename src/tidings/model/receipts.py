# SPDX-License-Identifier: Apache-2.0
"""Receipts, unread counts and the status of a message.

A receipt only moves forward. Unread is a subtraction and, where that is not zero, a count in the
log: no stored counter goes up or down, so none can drift.
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
    """Number of messages in the log up to `read`."""


class Unread(msgspec.Struct, frozen=True):
    """Number of messages that a user has not read; an upper bound if not exact."""

    count: int
    exact: bool = True


NOTHING_UNREAD = Unread(0)


def unread_without_a_look(head: Head, receipt: Receipt) -> Unread | None:
    """Return unread if head and receipt alone determine it; None if the log must be read."""
    left = head.number - receipt.read_number
    if left <= 0:
        return NOTHING_UNREAD
    if head.sequence - receipt.read > limits.UNREAD_ENTRIES_MAX:
        return Unread(left, exact=False)
    return None


def unread_of_page(chats: Iterable[tuple[Head, Receipt]]) -> list[Unread | None]:
    """Return unread for each chat of a list; None where the log must be read.

    The entries read for a whole page are bounded. A chat with few unread entries is always counted;
    chats with many are counted in order until the page's limit is used up.
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
    """Return whether the entry is a visible message of somebody else."""
    return (
        entry.kind == "message"
        and entry.sender != reader
        and not entry.redacted
        and not entry.expired(now)
    )


def status(sequence: int, sender: UserKey, receipts: Iterable[Receipt]) -> Status:
    """Return the status of a message: the lowest status among the other members."""
    others = [receipt for receipt in receipts if receipt.user != sender]
    if not others:
        return "sent"
    if all(receipt.read >= sequence for receipt in others):
        return "read"
    if all(max(receipt.delivered, receipt.read) >= sequence for receipt in others):
        return "delivered"
    return "sent"
