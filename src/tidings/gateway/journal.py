# SPDX-License-Identifier: Apache-2.0
"""The journal of a gateway: the last steps of delivery, in memory, in two rings of fixed size.

An entry that arrives is one record, however many connections get it. A connection that does not
send the entry at once gets a record of its own. For all others, the record of the entry also says
when it was written to the connection. Therefore the journal costs a fraction of a microsecond per
message.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidings.gateway.client_connection import ClientConnection, LocalConnection
from tidings.gateway.progress import Position
from tidings.model.ids import ChatId, UserKey
from tidings.ports.journals import ConnectionProgress, JournalQuestion, JournalStep, Progress, Step
from tidings.ports.world import Clock

ENTRIES_MAX: Final = 16_384
"""Number of entries whose arrival is kept; they take about 2 MB."""
STEPS_MAX: Final = 8_192
"""Number of steps of single connections that are kept; they take about 2 MB."""
UNCONFIRMED_CHATS_MAX: Final = 16
"""Number of chats with unconfirmed entries that are kept when a connection closes."""

ANSWERED_STEPS_MAX: Final = 100
"""Maximum number of steps of a message in an answer, and of closed connections. A user whose
devices connect again and again has many more."""

_SENT: Final[frozenset[Step]] = frozenset({"written_to_socket", "fetched"})


class ConnectionStep(NamedTuple):
    """A step of one connection, which concerns the entries `first` to `last` of a chat."""

    at: int
    step: Step
    user: UserKey
    connection: str
    device: str | None
    chat: ChatId | None
    first: int
    last: int

    def covers(self, chat: ChatId | None, sequence: int) -> bool:
        """Return True if the step concerns this entry."""
        return self.chat == chat and self.first <= sequence <= self.last


class DeliveryJournal:
    """Keeps the last steps of delivery in this gateway."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[tuple[ChatId | str, int, int]] = deque(maxlen=ENTRIES_MAX)
        self._steps: deque[ConnectionStep] = deque(maxlen=STEPS_MAX)

    def handed(self, chat: ChatId, sequence: int) -> None:
        """Record that an entry arrived, and was offered to the connections of its users."""
        self._entries.append((chat, sequence, self._clock.now()))

    def handed_notification(self, notification: str) -> None:
        """Record that a notification was sent to connections of its users."""
        self._entries.append((notification, 0, self._clock.now()))

    def note(
        self, connection: ClientConnection, step: Step, chat: ChatId, first: int, last: int
    ) -> None:
        """Record a step of one connection, which concerns the entries `first` to `last`."""
        self._keep(connection, step, chat, first, last)

    def closed(self, connection: LocalConnection) -> None:
        """Record that a connection has closed, and which entries its client did not confirm."""
        for chat, first, last in connection.progress.unconfirmed(UNCONFIRMED_CHATS_MAX):
            self._keep(connection, "unconfirmed", chat, first, last)
        self._keep(connection, "disconnected", None, 0, 0)

    def _keep(
        self, connection: ClientConnection, step: Step, chat: ChatId | None, first: int, last: int
    ) -> None:
        told, now = connection.conversation, self._clock.now()
        assert told.user is not None, "the journal begins after hello"
        kept = ConnectionStep(now, step, told.user, told.connection, told.device, chat, first, last)
        self._steps.append(kept)

    # Questions.

    def steps(self, question: JournalQuestion) -> list[JournalStep]:
        """Return the last steps that concern a message or notification, and when connections of its
        user closed."""
        first = self._arrivals(question)[:1]
        found = [JournalStep(at=at, step="handed_to_gateway") for at in first]
        steps = self._of(question)
        on_the_way = [step for step in steps if step.chat is not None]
        closed = [step for step in steps if step.chat is None]
        found += [
            JournalStep(at=step.at, step=step.step, connection=step.connection, device=step.device)
            for step in on_the_way[-ANSWERED_STEPS_MAX:] + closed[-ANSWERED_STEPS_MAX:]
        ]
        return sorted(found, key=lambda step: step.at)

    def progress_of(
        self, connection: LocalConnection, question: JournalQuestion
    ) -> ConnectionProgress:
        """Return how far a message has come on an open connection."""
        told = connection.conversation
        progress: Progress | None = None
        since = written_at = None
        if question.chat is not None:
            progress, since = self._progress(connection, question.chat, question)
            if progress in ("written", "acknowledged"):
                written_at = self._written_at(connection, question)
        return ConnectionProgress(
            connection=told.connection,
            device=told.device or "",
            connected_at=self.opened_at(connection),
            is_away=told.is_away,
            progress=progress,
            since=written_at if progress == "written" else since,
            written_at=written_at,
        )

    def _progress(
        self, connection: LocalConnection, chat: ChatId, question: JournalQuestion
    ) -> tuple[Progress, int | None]:
        progress, sequence = connection.progress, question.sequence
        position = progress.get(chat)
        if position is None:
            is_by_heads = connection.conversation.is_by_heads
            return ("heads_only" if is_by_heads else "behind"), None
        if sequence <= position.start:
            return self._older(connection, position, question)
        if sequence <= position.received:
            return "acknowledged", None
        if sequence <= position.sent:
            return "written", None
        if progress.is_window_full:
            return "window_full", self._last(connection, "window_full")
        if progress.is_paused:
            return "socket_full", self._last(connection, "socket_full")
        return "behind", None

    def _older(
        self, connection: ClientConnection, position: Position, question: JournalQuestion
    ) -> tuple[Progress, int | None]:
        """Return the progress of a message from before the entries that the connection sends."""
        for step in self._of(question):
            if step.step == "fetched" and step.connection == connection.conversation.connection:
                return "fetched", step.at
        if position.resync == "sent":
            return "resync", self._last(connection, "resync_sent")
        return ("resync_fetched" if position.resync else "before_connection"), None

    def _written_at(self, connection: ClientConnection, question: JournalQuestion) -> int | None:
        """Return when an entry was written to a connection; None if the journal no longer knows.

        A connection that read the entry from the log has a record of its own. Any other connection
        wrote it when it arrived, or when it arrived once more after the connection had waited for
        earlier entries.
        """
        name, waited = connection.conversation.connection, 0
        for step in self._of(question):
            if step.connection == name and step.step in _SENT:
                return step.at
            if step.connection == name and step.step == "waiting_for_earlier":
                waited = step.at
        opened = self.opened_at(connection)
        later = (at for at in self._arrivals(question) if at >= max(opened, waited))
        return next(later, None)

    def arrivals_between(self, after: int, until: int) -> Iterator[tuple[ChatId, int, int]]:
        """Yield the entries that arrived in a time, the newest first: chat, sequence and time."""
        for chat, sequence, at in reversed(self._entries):
            if at <= after:
                return
            if at <= until and sequence:
                yield ChatId(chat), sequence, at

    def steps_between(self, after: int, until: int) -> Iterator[ConnectionStep]:
        """Yield the steps of single connections in a time, the newest first."""
        for step in reversed(self._steps):
            if step.at <= after:
                return
            if step.at <= until:
                yield step

    def _of(self, question: JournalQuestion) -> list[ConnectionStep]:
        chat, sequence = question.chat, question.sequence
        return [
            step
            for step in self._steps
            if step.user == question.user
            and (step.chat is None or (chat is not None and step.covers(chat, sequence)))
        ]

    def _arrivals(self, question: JournalQuestion) -> list[int]:
        key = question.chat or question.notification, question.sequence
        return [at for name, sequence, at in self._entries if (name, sequence) == key]

    def _last(self, connection: ClientConnection, kind: Step) -> int | None:
        name = connection.conversation.connection
        for step in reversed(self._steps):
            if step.step == kind and step.connection == name:
                return step.at
        return None

    def opened_at(self, connection: ClientConnection) -> int:
        """Return when a connection was opened."""
        return self._wall(connection, connection.conversation.opened_at)

    def _wall(self, connection: ClientConnection, monotonic: int) -> int:
        return self._clock.now() - (connection.now() - monotonic)
