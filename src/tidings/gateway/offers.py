# SPDX-License-Identifier: Apache-2.0
"""An entry that is offered to a connection: from this process, or handed over by another."""

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.ports.handover import Parcel

Offer = Entry | Parcel


def is_first(offer: Offer, user: UserKey) -> bool:
    """Whether it makes the user a member."""
    if isinstance(offer, Parcel):
        return user in offer.added
    return offer.kind in ("added", "created") and _names(offer, user)


def is_last(offer: Offer, user: UserKey) -> bool:
    """Whether it is the last entry of the chat that the user may see."""
    if isinstance(offer, Parcel):
        return user in offer.removed
    return offer.kind == "removed" and _names(offer, user)


def start_before(offer: Offer, user: UserKey) -> int:
    """Where to start in a chat of which this is the first entry that came.

    At the entry that made the user a member; or, if that one has not come yet, where a device
    that has nothing of the chat would start.
    """
    if is_first(offer, user):
        return offer.sequence - 1
    return newest_start(offer.sequence)


def newest_start(head: int) -> int:
    """The place after which a device that has nothing of a chat starts."""
    return max(0, head - limits.CATCH_UP_CHAT_ENTRIES_MAX)


def _names(entry: Entry, user: UserKey) -> bool:
    return any(person.user == user for person in entry.people)
