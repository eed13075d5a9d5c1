# SPDX-License-Identifier: Apache-2.0
"""Port for the logs of chats: writers append runs of entries, and members read pages."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from tidings.logs.requests import Requests, no_requests
from tidings.model.chats import ChatState, Receipt
from tidings.model.entries import Entry, Head, Kind, SendKey
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Role
from tidings.ports.people import Listed


class Kept(msgspec.Struct, frozen=True):
    """Every entry of the `Run` is durable."""


class SlotTaken(msgspec.Struct, frozen=True):
    """Another writer has used one of the slots; no entry was written."""

    keys_are_claimed: bool = False
    """Whether the run's keys are claimed although no entry was written. The claims name the slots
    that the run wanted."""


class KeyTaken(msgspec.Struct, frozen=True):
    """Earlier sends have claimed the idempotency keys at these indexes; no entry was written."""

    indexes: tuple[int, ...]
    claimed: tuple[int, ...] = ()
    """Indexes of keys that this run has claimed and keeps, so that its other messages need no
    second claim."""


class Declined(msgspec.Struct, frozen=True):
    """The run's entry at this index cannot be applied; nothing was written.

    The target is the message that the entry would change or answer.

    `target_gone` means that the target is not a message, or that its content is gone. `no_change`
    means that the reaction or pin to add exists already, or that the one to remove does not exist.
    `too_many_emoji` means that the target has the maximum number of different emoji.
    `too_many_chats` means that a user who would be added has reached the limit of chats.
    `too_many_pins` means that the chat has the maximum number of pinned messages. `attachment_used`
    means that an upload belongs to another message, or is gone.
    """

    index: int
    reason: Literal[
        "target_gone",
        "no_change",
        "too_many_emoji",
        "too_many_chats",
        "too_many_pins",
        "attachment_used",
    ]


class Failed(msgspec.Struct, frozen=True):
    """The store failed. Only a repeat of the `Run` shows whether its entries were written."""


Outcome = Kept | SlotTaken | KeyTaken | Declined | Failed


def always() -> bool:
    """Return True. This is the default of `Run.may_write`: content may be written at any time."""
    return True


class Run(msgspec.Struct, kw_only=True, eq=False):
    """Entries for consecutive slots of one chat, from a writer that knows the log before them."""

    chat_id: ChatId
    entries: list[Entry]
    keys: list[SendKey | None]
    """For each entry that is a message, the idempotency key to claim; None for any other entry."""
    settle: Callable[[Outcome], None]
    requests: Callable[[], Requests] = no_requests
    """Returns the requests that append these entries, for the log."""
    may_write: Callable[[], bool] = always
    """Returns True if the content may still be written as it was encrypted.

    An engine that several processes use calls this just before it writes the entries. If it returns
    False, the outcome is `SlotTaken`, so that the writer encrypts the content and tries again.
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
    """A claimed idempotency key, with the message that was sent under it."""

    digest: bytes | None
    """None if the digest is no longer known."""
    entry: Entry | None
    """The message in its current state; None if the claim has no entry (yet)."""


class Log(Protocol):
    """Stores the entries of each chat, with the sequences 1 to head, without gaps or
    repetitions."""

    @property
    def takes_after(self) -> bool:
        """Whether a message may be appended without claiming its idempotency key, if the key has
        `after`.

        The appender must first make sure that the log does not contain the message. It stores the
        digest of the key in the entry instead.
        """
        ...

    def may_append(self, kind: Kind, *, has_options: bool = False) -> bool:
        """Return True if entries of this kind, or messages with options, may be appended.

        Return False for new kinds and options, while processes of an older version may be running.
        """
        ...

    def has_room(self, run: Sequence[Entry], entry: Entry) -> bool:
        """Return True if a message should be appended in one run with the messages of `run`.

        Return False if the longer run could cost more than two runs.
        """
        ...

    def append(self, run: Run) -> None:
        """Claim the run's idempotency keys and write its entries, unless one of its slots is taken.

        All entries are written or none. Keys are claimed no later than the entries are written. If
        a process dies between the two, only claims without entries are left.

        The transaction that writes an entry also applies its effects. `created`, `added`, `removed`
        and `role` write the membership and receipt rows and the chat's member count. A `message`
        with `reply_to` adds one to the target's count of replies, up to its limit; one with
        `mentions` appears in the lists of these users; one with `files` gets the uploads of its
        sender that it names. `renamed` writes the name, and `settings`
        the settings. `deleted` marks the chat as deleted, adds the job that removes the rest, and
        allows the two users of a direct chat to create another one. `edited` writes its box,
        box_key and time into the target, and stores no content itself. `redacted` removes the
        target's content. `reacted` and `unreacted` write the reaction and the target's count of it.
        `pinned` and `unpinned` write into the target whether it is pinned.

        `run.settle` is called exactly once, on the event loop, with the outcome. The outcome `Kept`
        is reported only after everything is durable. Runs of one chat settle in the order of the
        calls.
        """
        ...

    @property
    def waiting_max(self) -> int:
        """Maximum number of requests to append that may wait for one chat.

        The store can write this many entries in a few seconds.
        """
        ...

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        """Append the run that `make_run` returns, if any, when the store is about to write.

        Requests to append that arrive before that moment can become part of the run.
        """
        ...

    async def state(self, chat: ChatId) -> ChatState | None:
        """Return a chat's state, with every entry that was stored before this call; None if there
        is no such chat."""
        ...

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        """Return the next entries after a sequence, for a writer whose slot was taken.

        If there are fewer than `limits.TAIL_ENTRIES_MAX`, the log ends after them. A few more
        entries than this limit may be returned.
        """
        ...

    async def entry(self, chat: ChatId, sequence: int) -> Entry | None:
        """Return the entry at a sequence as it is now, for a writer; None if the log is shorter.

        Nobody's membership is checked.
        """
        ...

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        """Return the earlier send by this sender under this client_message_id.

        Returns None if the idempotency key is not claimed, or its claim has expired at `now`. If
        the key has `after`, and the store may contain messages without a claimed key, the log is
        searched for the message first.

        Raises:
            ChatBusy: The log is long. The next call continues the search.
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

        Returns None if the reader is not a member. The membership is read after the entries, or
        both from one snapshot, so that nobody gets entries after being removed. With
        `only_messages`, other kinds of entries are skipped; a page may then be short or even empty
        although it is not the last. `edited` entries come with their target as `shown`, and
        messages with the reader's own reactions as `mine`.
        """
        ...

    async def settled_messages(
        self, chat: ChatId, reader: UserKey, first: int, last: int
    ) -> list[Entry]:
        """Return the messages of a part of the log, newest first; they may be as they were a moment
        ago.

        The log must reach up to `last`. Nobody's membership is checked: the caller has read a page
        of the chat for the reader, and knows that these messages have not changed since.
        """
        ...

    async def message(self, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
        """Return a page that consists of one message; None if the reader is not a member.

        The page is empty if there is no message with this sequence. The `head` of the page is not
        the head of the log.
        """
        ...

    async def replies(
        self, chat: ChatId, reader: UserKey, sequence: int, *, after: int, limit: int
    ) -> Page | None:
        """Return the messages that answer a message, oldest first, after the sequence `after`.

        Returns None if the reader is not a member, which is checked as in `page`. The page is empty
        if there is no such message, or if nobody answered it.
        """
        ...

    async def pins(self, chat: ChatId, reader: UserKey) -> tuple[Page, list[Entry]] | None:
        """Return the pinned messages in the order in which they were pinned, and for each of them
        the entry that pinned it.

        Returns None if the reader is not a member, which is checked as in `page`.
        """
        ...

    async def mentions(
        self, user: UserKey, *, since: int, below: str | None, limit: int
    ) -> Listed[Entry]:
        """Return messages after the time `since` that mention the user by name, newest first.

        They are from chats of which the user is a member, which is checked as in `page`. The list
        begins below a position, or at the newest message; a page may be short although it is not
        the last. Messages without content may be among them.
        """
        ...

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        """Return the reactions to a message as (emoji, user, time), oldest first.

        Returns None if the reader is not a member, which is checked as in `page`. Returns an empty
        list if there is no such message, or if it has no reactions.
        """
        ...
