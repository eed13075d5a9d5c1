# SPDX-License-Identifier: Apache-2.0
"""The journal of push: what was decided about the last notices of a process, and how they ended.

It is in memory, in two rings of limited size: decisions not to notify somebody are many, and must
not displace the outcomes of notices that were sent.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from tidings.model.ids import ChatId, UserKey
from tidings.model.push_results import AttemptResult, PushResult
from tidings.ports.delivery import MessageNotice
from tidings.ports.journals import JournalQuestion, PushJournals, PushRecord
from tidings.ports.push import PushNotice
from tidings.ports.world import Clock

KEPT_MAX: Final = 8_192
"""Number of records in each ring; the two take about 4 MB."""
USERS_MAX: Final = 32_768
"""Number of users whom the records of a ring name, altogether. A record may name many, such as the
listed users of a notification who do not want to be notified; the two rings then take up to 10
MB."""
ANSWERED_MAX: Final = 100
"""Maximum number of records in an answer."""
OPERATOR: Final = "the push service of the operator"
NOTIFICATION: Final = (0,)
"""The sequences of a notification, which has none."""

Waits = Callable[[UserKey, ChatId, int], bool]
"""Returns True if a message waits to be pushed to a user."""


class _Kept(NamedTuple):
    at: int
    users: Collection[UserKey] | None
    """None for all users whom the message concerns."""
    about: str
    """The chat, or the inbox and the id of a notification."""
    sequences: Collection[int]
    result: PushResult
    notice: int = 0
    """The sequence that a claimed notice names; its outcomes are kept under this sequence."""
    place: str | None = None
    reason: str = ""

    @property
    def named(self) -> int:
        """The number of users whom the record names."""
        return 0 if self.users is None else len(self.users)

    def covers(self, user: UserKey, about: str, numbers: Collection[int]) -> bool:
        """Return True if the record concerns this user, and one of these messages of the chat."""
        return (
            self.about == about
            and (self.users is None or user in self.users)
            and any(number in self.sequences for number in numbers)
        )


class _LastRecords:
    """The last records, as long as they name few enough users altogether."""

    def __init__(self) -> None:
        self._kept: deque[_Kept] = deque()
        self._users = 0

    def __iter__(self) -> Iterator[_Kept]:
        return iter(self._kept)

    def append(self, kept: _Kept) -> None:
        """Keep a record, and drop the oldest ones if they are too many, or name too many users."""
        self._kept.append(kept)
        self._users += kept.named
        while len(self._kept) > KEPT_MAX or (self._users > USERS_MAX and len(self._kept) > 1):
            self._users -= self._kept.popleft().named


class PushJournal:
    """Keeps what became of the last push notices of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._decided = _LastRecords()
        self._ended = _LastRecords()
        self._queues: list[Waits] = []

    def follow(self, waits: Waits) -> None:
        """Ask a queue, too, which messages wait there."""
        self._queues.append(waits)

    def unfollow(self, waits: Waits) -> None:
        """Ask a queue no longer, because it is closed."""
        self._queues.remove(waits)

    def skipped(
        self,
        users: Collection[UserKey] | None,
        about: str,
        sequences: Collection[int],
        why: PushResult,
    ) -> None:
        """Record why users are not notified of some messages of a chat, or of a notification; None
        stands for all users whom it concerns."""
        if sequences and (users or users is None):
            self._decided.append(_Kept(self._clock.now(), users, about, sequences, why))

    def claimed(self, user: UserKey, chat: ChatId, sequences: Collection[int], notice: int) -> None:
        """Record that one notice of some messages was claimed, and the sequence that it names."""
        now, text = self._clock.now(), f"notice of sequence {notice}"
        kept = _Kept(now, (user,), chat, sequences, "claimed", notice, reason=text)
        self._decided.append(kept)

    def lost(
        self,
        users: Collection[UserKey] | None,
        about: str,
        sequences: Collection[int],
        result: PushResult,
    ) -> None:
        """Record that no notice could be sent: to these users, or to all whom the message
        concerns."""
        self._ended.append(_Kept(self._clock.now(), users, about, sequences, result))

    def attempted(
        self,
        user: UserKey,
        notice: PushNotice,
        result: AttemptResult,
        place: str,
        reason: str,
    ) -> None:
        """Record how a notice to one device ended."""
        if (subject := _subject(notice)) is not None:
            self._keep((user,), *subject, result, place, reason)

    def unregistered(self, user: UserKey, notice: PushNotice) -> None:
        """Record that a claimed notice found no device."""
        if (subject := _subject(notice)) is not None:
            about, sequence = subject
            self.lost((user,), about, (sequence,), "no_device")

    def by_operator(
        self, notices: Sequence[MessageNotice], result: PushResult, reason: str = ""
    ) -> None:
        """Record how notices to the push service of the operator ended."""
        for notice in notices:
            self._keep(notice.users, notice.chat_id, notice.sequence, result, OPERATOR, reason)

    def _keep(
        self,
        users: Collection[UserKey],
        about: str,
        sequence: int,
        result: PushResult,
        place: str,
        reason: str,
    ) -> None:
        now = self._clock.now()
        kept = _Kept(now, users, about, (sequence,), result, place=place, reason=reason)
        self._ended.append(kept)

    async def find(self, question: JournalQuestion) -> list[PushRecord]:
        """Return what this process knows, which sends all push notices."""
        return self.look(question)

    def look(self, question: JournalQuestion) -> list[PushRecord]:
        """Return what this process knows about the notices of a message or notification."""
        user, about = question.user, question.chat or question.notification or ""
        asked = (question.sequence,)
        found = [kept for kept in self._decided if kept.covers(user, about, asked)]
        numbers = {question.sequence, *(kept.notice for kept in found if kept.notice)}
        found += [kept for kept in self._ended if kept.covers(user, about, numbers)]
        records = [
            PushRecord(result=kept.result, at=kept.at, place=kept.place, reason=kept.reason)
            for kept in found[-ANSWERED_MAX:]
        ]
        chat = question.chat
        if chat and any(waits(user, chat, question.sequence) for waits in self._queues):
            records.append(PushRecord(result="waiting"))
        return records


def notification_subject(inbox: str, notification_id: str) -> str:
    """Return under which name a notification is kept in journals."""
    return f"{inbox}/{notification_id}"


def _subject(notice: PushNotice) -> tuple[str, int] | None:
    """Return what a notice is about; None if it is only a test, or clears another."""
    data = notice.data
    if notice.kind == "message":
        return data["chat_id"], int(data["sequence"])
    if notice.kind == "notification":
        return notification_subject(data["inbox"], data["notification_id"]), 0
    return None


_conforms: type[PushJournals] = PushJournal
