# SPDX-License-Identifier: Apache-2.0
"""The log of each chat: claiming slots, and reading for those who may."""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Head, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Receipt
from tidings.model.roles import Role


class Kept(msgspec.Struct, frozen=True):
    """Every entry of the run is durable."""


class SlotTaken(msgspec.Struct, frozen=True):
    """Another writer was first; no entry was written."""

    keys_are_claimed: bool = False
    """The run's keys are claimed nevertheless, for the slots it wanted."""


class KeyTaken(msgspec.Struct, frozen=True):
    """The keys at these indexes are claimed already; no entry was written."""

    indexes: tuple[int, ...]


class Declined(msgspec.Struct, frozen=True):
    """The entry at this index asks for what cannot be done; nothing was written.

    target_gone: the target is no message, or has no content any more. no_change: that reaction is
    there already, or is not there. too_many_emoji: the target has its full set of different ones.
    too_many_chats: a user who would be added is in as many chats as one may be.
    """

    index: int
    reason: Literal["target_gone", "no_change", "too_many_emoji", "too_many_chats"]


class Failed(msgspec.Struct, frozen=True):
    """The store could not write: the outcome is unknown to the caller, a repeat will tell."""


Outcome = Kept | SlotTaken | KeyTaken | Declined | Failed


def always() -> bool:
    """Nothing is sealed that could not be written later."""
    return True


class Run(msgspec.Struct, kw_only=True, eq=False):
    """Entries for consecutive slots of one chat, stamped by one who knows the log up to there."""

    chat_id: ChatId
    entries: list[Entry]
    keys: list[SendKey | None]
    """One for each entry: the key to claim with it, if it is a message."""
    settle: Callable[[Outcome], None]
    may_write: Callable[[], bool] = always
    """Whether the content may still be written as it is sealed.

    An engine that several processes use asks when it is about to put the entries. If not, the
    outcome is that of a lost slot: it is proposed again, and sealed anew.
    """


class Page(msgspec.Struct, kw_only=True):
    """Part of a log, as one reader may see it."""

    entries: list[Entry]
    head: Head
    next: int | None
    """Where to go on: the `after` or `before` of the next page; None at the end of the log."""
    role: Role
    member_count: int
    receipts: tuple[Receipt, ...]
    """Of all members in a small chat; empty in a large one."""


class Sent(msgspec.Struct, kw_only=True):
    """What became of a claimed key."""

    digest: bytes
    entry: Entry | None
    """The message, as it is now; None if the claim has no entry (yet)."""


class Log(Protocol):
    """The ordered entries of each chat: sequences 1..head, no hole, no place used twice."""

    @property
    def run_entries_max(self) -> int:
        """How many messages a run should hold: more cost more than they save, or do not fit."""
        ...

    def append(self, run: Run) -> None:
        """Claim the run's keys and put its entries, each at its own slot if nothing is there.

        Entries are all or none. Keys are claimed no later than the entries: a process that dies
        in between leaves a claim without an entry, and nothing else. With its entry go, in one
        transaction: for created, added, removed and role the membership and receipt rows and the
        chat's member count; for renamed the name; for deleted the chat's mark, the job that removes
        the rest, and the claim of a direct chat's pair; for edited the target's box, edited_at and
        box_key (taken from the entry, which itself keeps none); for redacted the loss of the
        target's content; for reacted and unreacted the reaction and the target's count.

        `run.settle` is called exactly once, on the event loop, with the outcome; `Kept` only
        after all of it is durable. Runs of one chat settle in the order they were given.
        """
        ...

    @property
    def waiting_max(self) -> int:
        """How many proposals may wait for one chat: as many as it takes in a few seconds."""
        ...

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        """Append the run that `make_run` returns when the store is about to write, if any.

        What comes until then can join it.
        """
        ...

    async def state(self, chat: ChatId) -> ChatState | None:
        """A chat's state as of a head that is at least the one at the time of the call."""
        ...

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        """For writers who lost a slot: the next entries after a sequence, up to a number of them.

        Fewer than `limits.TAIL_ENTRIES_MAX`: the log ends there.
        """
        ...

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        """Look for an earlier send under this sender and client_message_id.

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
        """Part of the log: upwards from `after`, or downwards from `before`; exactly one is given.

        The entries are read first and the reader's membership afterwards, or both from one
        snapshot: None unless the reader is a member at a moment not before the call. With
        `only_messages` other kinds are passed over; such a page may be short or even empty
        without being the last one. `edited` entries come with their target as `shown`, messages
        with the reader's own reactions as `mine`.
        """
        ...

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        """Who reacted to a message: emoji, user and time, oldest first. None: not for the reader.

        Membership is judged as in `page`. Empty also if there is no such message.
        """
        ...
