# SPDX-License-Identifier: Apache-2.0
"""Import an export into an empty store, in steps, so that an interrupted import can resume.

Each step stores the number of lines imported so far and their digest. A resumed import reads those
lines again without writing them, and verifies by the digest that it is the same export.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, assert_never

import msgspec

from tidings.actions.export.exporting import VERSION, VERSIONS_READ, ExportProof, Tally, bad_id
from tidings.actions.export.files import PartReading
from tidings.model.chats import DIRECT_MEMBERS
from tidings.model.entries import Entry, Head, finished
from tidings.model.ids import UserKey, tenant_of
from tidings.ports.attachments import Blobs
from tidings.ports.export_engines import ExportProgress, Target
from tidings.ports.export_facts import (
    ChatFact,
    EntryFact,
    ExportEnd,
    ExportStart,
    Fact,
    Line,
    MemberFact,
    ReactionFact,
    SecretFact,
    SendKeyFact,
    UserCount,
    UserFact,
    WholeChat,
    Written,
    to_entry,
)
from tidings.ports.export_feature_facts import BytesFact, UploadFact

STEP_FACTS: Final = 2_000

_decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode


class Damaged(Exception):
    """The file is incomplete or of another version; the text gives the line and the reason."""


class OtherImport(Exception):
    """The store contains part of a different export."""


class Imported(msgspec.Struct, frozen=True):
    """A finished import."""

    closing: ExportEnd
    master_keys: frozenset[str]
    """Ids of the master keys that wrap the deployment's secrets."""


async def import_all(
    target: Target,
    lines: Iterable[bytes],
    report: Callable[[Tally], None],
    proof: ExportProof | None = None,
    blobs: Blobs | None = None,
) -> Imported:
    """Write all facts of an export into an empty store, or resume an import that was stopped.

    The bytes of files go to `blobs`; without it they are left out.
    The signature is checked only if `proof` is given; otherwise the caller must trust the file.

    Raises:
        Unproven: The file was changed. The store stays half imported, and no server opens it.
        Damaged: The file is incomplete. The store stays half imported, and no server opens it.
        OtherImport: The store contains the beginning of another export.
        SetupError: The store is not empty.
        StoreUnavailable: The store does not answer. A repeated import resumes where this stopped.
    """
    reading = _FileReading(lines, proof)
    begun = await target.begin()
    step: list[Written] = []
    for facts in reading:
        if reading.tally.lines <= begun.lines:
            _compare(reading.tally, begun)
            continue
        step += facts
        if (part := reading.files.pop()) is not None and blobs is not None:
            await blobs.put(part.attachment_id, part.name, [part.data])
        # A resumed import reads a part from its beginning.
        if len(step) >= STEP_FACTS and not reading.files.is_open:
            await target.write(step, reading.tally.progress)
            step = []
            report(reading.tally)
    if reading.tally.lines < begun.lines:
        raise OtherImport
    await target.write(step, reading.tally.progress)
    report(reading.tally)
    await target.finish(reading.opening.epoch)
    return Imported(reading.closing, frozenset(reading.master_keys))


def check(lines: Iterable[bytes], proof: ExportProof | None = None) -> ExportEnd:
    """Check an export without importing it; return its last line, which has the counts of facts.

    Raises:
        Unproven: The file was changed.
        Damaged: The file is incomplete.
    """
    reading = _FileReading(lines, proof)
    for _ in reading:
        pass
    return reading.closing


def _compare(tally: Tally, begun: ExportProgress) -> None:
    if tally.lines == begun.lines and tally.progress != begun:
        raise OtherImport


class _FileReading:
    """Parses an export, and checks the order of its lines and its end."""

    opening: ExportStart
    """Set after the first line is read; `closing` is set after the last."""
    closing: ExportEnd

    def __init__(self, lines: Iterable[bytes], proof: ExportProof | None) -> None:
        self.tally = Tally()
        self._proof = proof
        self.master_keys: set[str] = set()
        self.files = PartReading()
        self._lines = iter(lines)
        self._chat: _ChatReading | None = None
        self._users: Counter[str] = Counter()
        """Number of users read so far, by tenant. It is cleared when another kind of fact
        follows."""

    def __iter__(self) -> Iterator[list[Written]]:
        """Yield the fact in each line.

        If a line shows that the chat or the list of users before it is complete, the totals of that
        chat or list are yielded before the line's own fact.
        """
        opening = self._next()
        if not isinstance(opening, ExportStart):
            raise self._damaged("an export begins with a different line")
        if opening.version not in VERSIONS_READ:
            raise self._damaged(
                f"version {opening.version} is unknown; the latest known is {VERSION}"
            )
        self.opening = opening
        while not isinstance(line := self._next(), ExportEnd):
            if isinstance(line, ExportStart):
                raise self._damaged("another export begins here")
            self.tally.count(line)
            yield self._take(line)
        if self.files.is_open:
            raise self._damaged("the file before this line is incomplete")
        self.closing = line
        yield [*self._whole_chat(), *self._user_counts()]

    def _next(self) -> Line:
        text = next(self._lines, b"")
        if not text.endswith(b"\n"):
            self.tally.lines += 1
            raise self._damaged("the end is missing")
        try:
            line = _decode(text)
        except msgspec.MsgspecError as error:
            self.tally.lines += 1
            raise self._damaged(str(error)) from None
        if isinstance(line, ExportEnd):
            self._check_end(line)
        self.tally.add(text)
        return line

    def _check_end(self, closing: ExportEnd) -> None:
        expected = self.tally.closing()
        if closing.counts != expected.counts:
            raise self._damaged(f"the end says {closing.counts}, but found {expected.counts}")
        if closing.sha256 != expected.sha256:
            raise self._damaged("the digest at the end does not match the lines before it")
        if next(self._lines, b""):
            raise self._damaged("there are lines after the end")
        if self._proof is not None:
            self._proof.check(closing)

    def _take(self, fact: Fact) -> list[Written]:
        if field := bad_id(fact, self._chat.chat if self._chat is not None else None):
            raise self._damaged(f"{field} has an impossible value")
        if isinstance(fact, MemberFact | EntryFact | ReactionFact | SendKeyFact):
            if self._chat is None or not self._chat.take(fact):
                raise self._damaged("not a line that may follow the line before it")
            return [fact]
        if isinstance(fact, UserFact):
            self._users[tenant_of(fact.user_id)] += fact.deleted_at is None
            return [fact]
        if isinstance(fact, BytesFact):
            if not self.files.take(fact):
                raise self._damaged("not a line that may follow the line before it")
            return []
        if self.files.is_open:
            raise self._damaged("the file before this line is incomplete")
        before = [*self._whole_chat(), *self._user_counts()]
        if isinstance(fact, UploadFact):
            self.files.begin(fact)
        elif isinstance(fact, ChatFact):
            self._chat = _ChatReading(fact)
        elif isinstance(fact, SecretFact):
            self.master_keys.add(fact.master_key_id)
        return [*before, fact]

    def _whole_chat(self) -> list[Written]:
        if self._chat is None:
            return []
        if not self._chat.is_whole:
            raise self._damaged("the chat before this line is incomplete")
        whole, self._chat = self._chat.whole(), None
        return [whole]

    def _user_counts(self) -> list[Written]:
        counts, self._users = self._users, Counter()
        return [UserCount(tenant=tenant, users=users) for tenant, users in counts.items()]

    def _damaged(self, reason: str) -> Damaged:
        return Damaged(f"line {self.tally.lines:,}: {reason}")


class _ChatReading:
    """Parses the lines of one chat in an export."""

    def __init__(self, chat: ChatFact) -> None:
        self.chat = chat
        self._members: list[tuple[int, UserKey]] = []
        self._head = Head()
        self._removed = 0
        self._deleted: Entry | None = None

    def take(self, part: MemberFact | EntryFact | ReactionFact | SendKeyFact) -> bool:
        """Add the next fact; return False if it may not follow the facts before it."""
        if part.chat_id != self.chat.chat_id:
            return False
        match part:
            case MemberFact():
                self._members.append((part.joined, part.user_id))
            case EntryFact():
                if part.sequence != self._head.sequence + 1 or self._deleted is not None:
                    return False
                self._deleted = to_entry(part) if part.kind == "deleted" else None
                self._removed += len(part.people) if part.kind == "removed" else 0
                self._head = Head(part.sequence, part.number, part.last_message, part.active_at)
            case ReactionFact():
                return part.sequence == self._head.sequence
            case SendKeyFact():
                pass
            case _:
                assert_never(part)
        return True

    @property
    def is_whole(self) -> bool:
        """Whether the chat has all the facts that every chat must have."""
        if self._deleted is not None:
            return not self._members
        # A deleted user was removed from the direct chat.
        is_pair = len(self._members) + self._removed == DIRECT_MEMBERS
        return self._head.sequence > 0 and (self.chat.type != "direct" or is_pair)

    def whole(self) -> WholeChat:
        """Return the chat with its head, members and deletion."""
        members = tuple(user for _, user in sorted(self._members))
        deletion = None if self._deleted is None else finished(self._deleted)
        return WholeChat(chat=self.chat, head=self._head, deletion=deletion, members=members)
