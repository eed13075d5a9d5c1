# SPDX-License-Identifier: Apache-2.0
"""Port for the log of each chat: appending runs of entries, and reading pages as a member."""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from tidings.model.chats import ChatState, Receipt
from tidings.model.entries import Entry, Head, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Role


class Kept(msgspec.Struct, frozen=True):
    """Every entry of the run is durable."""


class SlotTaken(msgspec.Struct, frozen=True):
    """Another writer took a slot first; no entry was written."""

    keys_are_claimed: bool = False
    """Whether the run's keys are claimed nevertheless, for the slots it wanted."""


class KeyTaken(msgspec.Struct, frozen=True):
    """The keys at these indexes are claimed already; no entry was written."""

    indexes: tuple[int, ...]


class Declined(msgspec.Struct, frozen=True):
    """The entry at this index cannot be applied; nothing was written.

    target_gone: the target is not a message, or its content is gone. no_change: the reaction to add
    exists, or the reaction to remove does not. too_many_emoji: the target has the maximum of
    different emoji. too_many_chats: a user who would be added has reached the limit of chats.
    """

    index: int
    reason: Literal["target_gone", "no_change", "too_many_emoji", "too_many_chats"]


class Failed(msgspec.Struct, frozen=True):
    """The store could not write: the outcome is unknown until the run is repeated."""


Outcome = Kept | SlotTaken | KeyTaken | Declined | Failed


def always() -> bool:
    """Return True: content sealed now may be written at any later time."""
    return True


class Run(msgspec.Struct, kw_only=True, eq=False):
    """Entries for consecutive slots of one chat, by a writer that knows the log before them."""

    chat_id: ChatId
    entries: list[Entry]
    keys: list[SendKey | None]
    """For each entry the key to claim with it, or None unless it is a message."""
    settle: Callable[[Outcome], None]
    may_write: Callable[[], bool] = always
    """Whether the content may still be written as it is sealed.

    An engine that several processes use calls this just before it puts the entries. On False the
    outcome is that of a lost slot: the entries are proposed again, and sealed again.
    """


class Page(msgspec.Struct, kw_only=True):
    """Part of a log, as one reader sees it."""

    entries: list[Entry]
    head: Head
    next: int | None
    """The `after` or `before` of the next page; None at the end of the log."""
    role: Role
    member_count: int
    receipts: tuple[Receipt, ...]
    """Receipts of all members in a small chat; empty in a large chat."""


class Sent(msgspec.Struct, kw_only=True):
    """A claimed key with the message that was sent under it."""

    digest: bytes
    entry: Entry | None
    """The message in its current state; None if the claim has no entry (yet)."""


class Log(Protocol):
    """Ordered entries of each chat: sequences 1..head, no gap, no sequence used twice."""

    @property
    def run_entries_max(self) -> int:
        """Most messages in a run: with more, a run costs more than it saves, or does not fit."""
        ...

    def append(self, run: Run) -> None:
        """Claim the run's keys and put its entries, each at its own slot if nothing is there.

        All entries are written or none. Keys are claimed no later than the entries: a process that
        dies in between leaves a claim without an entry, and nothing else. The transaction that
        writes an entry also writes: for created, added, removed and role the membership and receipt
        rows and the chat's member count; for renamed the name; for deleted the chat's mark, the job
        that removes the rest, and the claim of a direct chat's pair; for edited the target's box,
        edited_at and box_key (taken from the entry, which itself stores none); for redacted the
        removal of the target's content; for reacted and unreacted the reaction and the target's
        count.

        `run.settle` is called exactly once, on the event loop, with the outcome; with `Kept` only
        after everything is durable. Runs of one chat settle in the order of the calls.
        """
        ...

    @property
    def waiting_max(self) -> int:
        """Most proposals that may wait for one chat: as many as it can write in a few seconds."""
        ...

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        """Append the run that `make_run` returns, if any, when the store is about to write.

        Proposals that arrive before then can join the run.
        """
        ...

    async def state(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state at a head no older than the head at the time of the call."""
        ...

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        """Return the next entries after a sequence, for a writer that lost a slot.

        If they are fewer than `limits.TAIL_ENTRIES_MAX`, the log ends there.
        """
        ...

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        """Return the earlier send under this sender and client_message_id.

        None if the key is not claimed, or its claim has expired at `now`.
        """
        ...

    async def page(
        self,
        chat: ChatId,
        reader: UserKey,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
        only_messages: bool = False,
    ) -> Page | None:
        """Return part of the log, upwards from `after` or downwards from `before` (exactly one).

        The entries are read first and the reader's membership afterwards, or both from one
        snapshot: None unless the reader is a member at a moment not before the call. With
        `only_messages` other kinds are skipped; such a page may be short or even empty without
        being the last. `edited` entries come with their target as `shown`, messages with the
        reader's own reactions as `mine`.
        """
        ...

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        """Return the reactions to a message as (emoji, user, time), oldest first.

        None unless the reader is a member, checked as in `page`. Empty also if there is no such
        message.
        """
        ...
