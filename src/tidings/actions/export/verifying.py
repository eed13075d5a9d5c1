# SPDX-License-Identifier: Apache-2.0
"""Verify stored data: check every fact of a deployment against the facts before it.

Nothing is written. The facts come in the order of an export, so a chat is checked in one pass, with
memory for its members only.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol, assert_never

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.wrapping import NONCE_BYTES, CannotUnwrap, data_key_purpose
from tidings.actions.export.verifying_files import FileChecks
from tidings.model.entries import ACTIVITY, Head
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import JOB_USERS_MAX
from tidings.model.roles import Role
from tidings.model.scheduled import Scheduled
from tidings.ports.attachments import Blobs
from tidings.ports.export_engines import Inspection, Violation
from tidings.ports.export_facts import (
    ChatFact,
    DataKeyFact,
    EntryFact,
    Fact,
    MemberFact,
    ReactionFact,
)
from tidings.ports.export_feature_facts import UploadFact
from tidings.ports.export_inbox_facts import (
    BroadcastFact,
    NotificationFact,
    ReadStateFact,
    ScheduledFact,
    converted,
)


class Unwrapping(Protocol):
    """Unwraps secrets with the master keys that are available."""

    def unwrap(self, purpose: str, master_key_id: str, wrapped: bytes) -> bytes:
        """Return the secret; raise CannotUnwrap if no available master key opens it."""
        ...


class Verified(msgspec.Struct):
    """Progress and result of a verification."""

    facts: int = 0
    chats: int = 0
    entries: int = 0
    after: ChatId | None = None
    """The last chat that is verified."""
    violations: int = 0


async def verify_all(
    store: Inspection,
    now: int,
    unwrapping: Unwrapping | None,
    report: Callable[[Verified], None],
    begun: Verified,
    blobs: Blobs | None = None,
) -> AsyncIterator[Violation]:
    """Yield every violation in the stored data; `begun` is updated, and reported after each batch.

    With `unwrapping`, all content of chats is decrypted too, which shows that it was not changed.
    With `blobs`, so are the bytes of files.
    """
    checks = FactChecks(unwrapping)
    files = None if blobs is None else FileChecks(store, blobs, checks.keys, now)
    async for facts in store.facts(now, begun.after):
        for fact in facts:
            for violation in checks.take(fact):
                begun.violations += 1
                yield violation
            if files is not None and isinstance(fact, UploadFact):
                async for violation in files.check(fact):
                    begun.violations += 1
                    yield violation
        begun.facts += len(facts)
        begun.chats, begun.entries = checks.chats, checks.entries
        begun.after = checks.last_chat or begun.after
        report(begun)
    for violation in checks.finish():
        begun.violations += 1
        yield violation
    async for violation in store.disagreements():
        begun.violations += 1
        yield violation
    if files is not None:
        async for violation in files.orphans():
            begun.violations += 1
            yield violation
    report(begun)


class FactChecks:
    """Checks facts in the order of an export."""

    def __init__(self, unwrapping: Unwrapping | None) -> None:
        self.chats = 0
        self.entries = 0
        self.last_chat: ChatId | None = None
        self.keys = _DataKeys(unwrapping)
        self._chat: _ChatChecks | None = None
        self._announced: dict[tuple[str, str], int] = {}

    def take(self, fact: Fact) -> Iterator[Violation]:
        """Yield the violations that a fact shows."""
        match fact:
            case DataKeyFact():
                yield from self.keys.take(fact)
            case ChatFact():
                yield from self.finish()
                self.chats += 1
                self._chat = _ChatChecks(fact, self.keys)
            case MemberFact() | EntryFact() | ReactionFact() if self._chat is not None:
                self.entries += isinstance(fact, EntryFact)
                yield from self._chat.take(fact)
            case ScheduledFact():
                bound_to = f"{fact.user_id}\0{fact.chat_id}\0{converted(Scheduled, fact).sent_as}"
                where = f"{fact.user_id} {fact.scheduled_id}"
                yield from self.keys.check_box(where, fact.user_id, fact, bound_to)
            case NotificationFact():
                yield from _check_notification(fact)
            case BroadcastFact():
                yield from self._broadcast(fact)
            case ReadStateFact():
                yield from self._read_state(fact)
            case _:
                pass

    def finish(self) -> Iterator[Violation]:
        """Yield the violations that only the end of a chat shows."""
        if self._chat is not None:
            yield from self._chat.finish()
            self.last_chat, self._chat = self._chat.chat_id, None

    def _broadcast(self, fact: BroadcastFact) -> Iterator[Violation]:
        inbox = (fact.tenant, fact.inbox)
        before = self._announced.get(inbox, 0)
        if fact.sequence <= before:
            yield Violation("/".join(inbox), f"broadcast {fact.sequence} follows {before}")
        self._announced[inbox] = fact.sequence

    def _read_state(self, fact: ReadStateFact) -> Iterator[Violation]:
        tenant = fact.user_id.partition(":")[0]
        last = self._announced.get((tenant, fact.inbox), 0)
        marks = (fact.announced, fact.seen_announced, fact.archived_announced)
        if max(*marks, *fact.singly) > last:
            where = f"{tenant}/{fact.inbox} {fact.user_id}"
            yield Violation(where, f"a read mark is beyond the last broadcast, {last}")


def _check_notification(fact: NotificationFact) -> Iterator[Violation]:
    jobs = -(-fact.recipients // JOB_USERS_MAX)
    if any(not 0 <= number < jobs for number in fact.finished_jobs):
        where = f"{fact.tenant}/{fact.inbox} {fact.notification_id}"
        yield Violation(where, f"a finished job is not one of its {jobs} jobs")


class _DataKeys:
    """The last data key of each author."""

    def __init__(self, unwrapping: Unwrapping | None) -> None:
        self._unwrapping = unwrapping
        self._keys: dict[UserKey, tuple[int, bytes | None]] = {}

    def take(self, fact: DataKeyFact) -> Iterator[Violation]:
        secret = None
        if self._unwrapping is not None and fact.wrapped is not None:
            assert fact.master_key_id is not None, "a wrapped key names its master key"
            try:
                secret = self._unwrapping.unwrap(
                    data_key_purpose(fact.author), fact.master_key_id, fact.wrapped
                )
            except CannotUnwrap as reason:
                yield Violation(fact.author, f"the data key cannot be unwrapped: {reason}")
        self._keys[fact.author] = (fact.generation, secret)

    def check(self, entry: EntryFact) -> Iterator[Violation]:
        """Check that the content of a message can be decrypted, or was erased."""
        bound_to = f"{entry.sender}\0{entry.chat_id}\0{entry.client_message_id}"
        yield from self.check_box(
            f"{entry.chat_id} {entry.sequence}", entry.sender, entry, bound_to
        )

    def check_box(
        self, where: str, author: UserKey, sealed: EntryFact | ScheduledFact, bound_to: str
    ) -> Iterator[Violation]:
        """Check that content was erased, or can be decrypted; its encryption is bound to a text."""
        if sealed.box is None:
            return
        generation, _ = self._keys.get(author, (0, None))
        if sealed.box_key > generation:
            yield Violation(where, f"its data key, generation {sealed.box_key}, is missing")
        try:
            self.open_box(author, sealed.box_key, sealed.box, bound_to)
        except ValueError:
            yield Violation(where, "its content was changed")

    def open_box(self, author: UserKey, generation: int, box: bytes, bound_to: str) -> bytes | None:
        """Return the content of a box; None if it was erased, or if there is no master key.

        Raises:
            ValueError: The box was changed.
        """
        last, secret = self._keys.get(author, (0, None))
        if secret is None or generation != last:
            return None
        try:
            return AESGCM(secret).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], bound_to.encode())
        except InvalidTag:
            raise ValueError("the box was changed") from None


class _ChatChecks:
    """Checks the facts of one chat."""

    def __init__(self, chat: ChatFact, keys: _DataKeys) -> None:
        self.chat_id = chat.chat_id
        self._keys = keys
        self._head = Head()
        self._is_deleted = False
        self._stored: dict[UserKey, tuple[Role, int]] = {}
        """Role of each member, and the sequence with which the member joined, as stored."""
        self._members: dict[UserKey, tuple[Role, int]] = {}
        """Role of each member, and the sequence with which the member joined, as the log shows
        them."""
        self._marks: defaultdict[int, list[tuple[str, int | None]]] = defaultdict(list)
        """Marks by sequence, each with the number of messages that the log should have up to
        there."""
        self._reacted: tuple[int, dict[str, int]] = (0, {})
        """A message, and those of its counted reactions that were not found yet."""

    def take(self, fact: MemberFact | EntryFact | ReactionFact) -> Iterator[Violation]:
        match fact:
            case MemberFact():
                self._take_member(fact)
                yield from self._pass(0)
            case EntryFact():
                yield from self._uncounted()
                yield from self._take_entry(fact)
            case ReactionFact():
                _, left = self._reacted
                left[fact.emoji] = left.get(fact.emoji, 0) - 1
            case _:
                assert_never(fact)

    def finish(self) -> Iterator[Violation]:
        """Yield the violations that only the end of the log shows."""
        yield from self._uncounted()
        head = self._head.sequence
        if head == 0:
            yield self._violation("the log is empty")
        for marks in self._marks.values():
            for name, _ in marks:
                yield self._violation(f"{name} is beyond the log, which ends at {head}")
        members = {} if self._is_deleted else self._members
        for user in sorted(members.keys() | self._stored.keys()):
            if members.get(user) != self._stored.get(user):
                told, stored = members.get(user), self._stored.get(user)
                yield self._violation(f"member {user}: the log says {told}, stored is {stored}")

    def _take_member(self, member: MemberFact) -> None:
        user = member.user_id
        self._stored[user] = (member.role, member.joined)
        self._marks[member.delivered].append((f"delivered of {user}", None))
        self._marks[member.read].append((f"read of {user}", member.read_number))
        if member.unread_from:
            before = member.unread_from - 1
            self._marks[before].append((f"unread_from of {user}", member.unread_number))

    def _take_entry(self, entry: EntryFact) -> Iterator[Violation]:
        before = self._head
        is_message = entry.kind == "message"
        expected = Head(
            before.sequence + 1,
            before.number + is_message,
            entry.sequence if is_message else before.last_message,
            entry.created_at if entry.kind in ACTIVITY else before.active_at,
        )
        self._head = Head(entry.sequence, entry.number, entry.last_message, entry.active_at)
        if entry.sequence != expected.sequence:
            yield self._violation(f"entry {entry.sequence} follows {before.sequence}")
        elif self._head != expected:
            yield self._violation(f"entry {entry.sequence} counts {self._head}, not {expected}")
        if entry.target is not None and not 0 < entry.target < entry.sequence:
            yield self._violation(f"entry {entry.sequence} changes {entry.target}")
        if entry.reply_to is not None and not 0 < entry.reply_to < entry.sequence:
            yield self._violation(f"message {entry.sequence} answers {entry.reply_to}")
        self._fold(entry)
        self._reacted = (entry.sequence, dict(entry.reactions or {}))
        yield from self._keys.check(entry)
        yield from self._pass(entry.sequence)

    def _fold(self, entry: EntryFact) -> None:
        match entry.kind:
            case "created" | "added":
                self._members |= {p.user: (p.role, entry.sequence) for p in entry.people}
            case "removed":
                for person in entry.people:
                    self._members.pop(person.user, None)
            case "role":
                for person in entry.people:
                    if (member := self._members.get(person.user)) is not None:
                        self._members[person.user] = (person.role, member[1])
            case "deleted":
                self._is_deleted = True
            case _:
                pass

    def _pass(self, sequence: int) -> Iterator[Violation]:
        """Check the receipts whose received or read mark is at this sequence of the log."""
        for name, number in self._marks.pop(sequence, ()):
            if number is not None and number != self._head.number:
                yield self._violation(
                    f"{name} claims {number} messages up to {sequence}, there are "
                    f"{self._head.number}"
                )

    def _uncounted(self) -> Iterator[Violation]:
        sequence, left = self._reacted
        wrong = sorted(emoji for emoji, count in left.items() if count)
        if wrong:
            yield self._violation(f"message {sequence} miscounts its reactions {wrong}")
        self._reacted = (0, {})

    def _violation(self, what: str) -> Violation:
        return Violation(self.chat_id, what)
