# SPDX-License-Identifier: Apache-2.0
"""Ports for what happens later: items that become due, and scheduled messages.

An item says only that something is due, and when. The work itself is described elsewhere in the
store, and doing it twice has no further effect. Therefore an item may be found twice, and is
removed only after its work is done.
"""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidings.model.ids import UserKey, tenant_of
from tidings.model.limits import SECOND_MS
from tidings.model.scheduled import Scheduled
from tidings.ports.people import Listed

DueKind = Literal["message", "webhook", "inbox", "escalation"]
LEASE_MS: Final = 15 * SECOND_MS
"""How long a process has its shards without renewing its lease on them. If the process dies, other
processes cannot take its shards before this time is over."""

DROPPED_MAX: Final = 25
"""Items that are removed with one write."""


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """An item that becomes due at a time."""

    kind: DueKind
    at: int
    item_id: str
    """Unique among the items of its kind."""
    subject: str
    """The object with which the work begins, such as the key of a message's author."""
    tenant: str
    made_at: int
    place: str = ""
    """Where the engine found the item; empty in an item that was not read."""

    @property
    def name(self) -> tuple[str, int, str]:
        """The values that identify the item among all items."""
        return self.kind, self.at, self.item_id


def due_of(message: Scheduled) -> Due:
    """Return the item that says when a scheduled message is due."""
    return Due(
        kind="message",
        at=message.send_at,
        item_id=message.scheduled_id,
        subject=message.user_id,
        tenant=tenant_of(message.user_id),
        made_at=message.updated_at,
    )


class DueItems(Protocol):
    """Stores items that become due. Every write is durable when it returns, and safe to repeat.

    The items of a kind are divided into shards. Several processes share the shards, so that each
    item is usually found by one process only.
    """

    async def put(self, due: Due, now: int) -> None:
        """Store an item. One whose time has passed is due at once."""
        ...

    async def lease(self, kind: DueKind, holder: str, now: int) -> Sequence[int]:
        """Acquire or renew the leases on a fair share of the shards; return these shards.

        They belong to the holder for at least half of `LEASE_MS`, because only a lease of which
        half is over is renewed. A holder that has more than its share, because another process has
        started, gives some back.
        """
        ...

    async def read(
        self,
        kind: DueKind,
        shard: int,
        now: int,
        limit: int,
        without: Sequence[str] = (),
        after: Due | None = None,
        since: int = 0,
    ) -> list[Due]:
        """Return the items of a leased shard that are due at `now`, earliest first.

        Items of the tenants in `without` are left out, and so are those up to `after`, an item that
        an earlier call returned, and those that were due before `since`.
        """
        ...

    async def drop(self, due: Due) -> None:
        """Remove an item, unless it was stored again since then, with a later `made_at`."""
        ...

    async def drop_done(self, dues: Sequence[Due]) -> None:
        """Remove at most `DROPPED_MAX` items that were read and that nobody stores again."""
        ...

    async def give_back(self, kind: DueKind, holder: str) -> None:
        """Give back all shards of the holder, because its process ends."""
        ...


class DueWork(Protocol):
    """Does the work of one kind of items."""

    async def do(self, due: Due) -> bool:
        """Do what is due. A repeat does no harm, so a process may die at any moment.

        Returns True if nobody stores the same item again, so that it can be removed together with
        others.

        Raises:
            NotYet: The item must be kept until a certain time.
            Unavailable: The work must be tried again.
        """
        ...

    async def give_up(self, due: Due) -> None:
        """End an item whose work failed too often, in a way that its owner can see."""
        ...


class ScheduledMessages(Protocol):
    """Stores scheduled messages. Every write is durable when it returns, and safe to repeat."""

    async def add(self, message: Scheduled) -> Scheduled | None:
        """Store a message, unless one with this id is stored already; return the stored message.

        Returns None if the author has reached the limit of scheduled messages. The due item must
        be stored already, so that a message is never without one.
        """
        ...

    async def get(self, user: UserKey, scheduled_id: str) -> Scheduled | None:
        """Return a message of the user, from a strong read."""
        ...

    async def page(
        self, user: UserKey, *, after: str | None, limit: int, now: int
    ) -> Listed[Scheduled]:
        """Return messages of the user in the order of their ids, after a position.

        Sent, cancelled and expired messages are left out, so a page may be short although it is
        not the last.
        """
        ...

    async def replace(self, before: Scheduled, after: Scheduled) -> bool:
        """Store `after` if the stored message is still pending, and as it was in `before`.

        Returns False if it is not, and stores nothing.
        """
        ...

    async def fire(self, user: UserKey, scheduled_id: str, send_at: int) -> Scheduled | None:
        """Mark a message as firing if it is pending or firing, and to be sent at this time.

        Returns the message afterwards, in any state; None if there is none.
        """
        ...

    async def finish(self, message: Scheduled) -> None:
        """Store the result of a message that was firing."""
        ...

    async def names(self, user: UserKey, limit: int) -> list[str]:
        """Return the names of some of the user's items: the ids of messages in any state, and the
        names of items that the engine itself needs."""
        ...

    async def forget(self, user: UserKey, names: Sequence[str]) -> None:
        """Remove at most 25 items with these names, and the due items of messages among them."""
        ...
