# SPDX-License-Identifier: Apache-2.0
"""The client's half of the protocol: it turns received frames into frames and events. No I/O.

A conversation outlives connections: `connected` gives it a connection, `lost` takes it away.
"""

from collections.abc import Callable, Hashable
from typing import Final

from tidings_client.erasures import Erasures
from tidings_client.errors import Refused, Unavailable, WrongUser
from tidings_client.event_queue import Dropped, EventQueue, Mark, Position
from tidings_client.events import ChatGone, ChatHead, Connected
from tidings_client.following import Following
from tidings_client.frames import (
    Away,
    ClientFrame,
    Entry,
    ErasedFrame,
    Fetch,
    Gone,
    Heads,
    Live,
    NotificationFrame,
    Page,
    Ping,
    Pong,
    Read,
    RefusedFrame,
    Resync,
    RetractedFrame,
    SentFrame,
    ServerFrame,
    TypingFrame,
    Welcome,
)
from tidings_client.heartbeat import Heartbeat
from tidings_client.inbox_events import InboxEvents
from tidings_client.log_view import Want
from tidings_client.notebook import Notebook
from tidings_client.notices import notice_of
from tidings_client.outbox import Outbox
from tidings_client.receipts import Receipts
from tidings_client.requests import Question, Requests
from tidings_client.saved import Outgoing, Saved
from tidings_client.selection import Selection
from tidings_client.sending import Outcome, Sending

Line = Callable[[ClientFrame], None]

FETCHES_MAX: Final = 4
FETCH_ENTRIES: Final = 100
RESYNC_ENTRIES: Final = 50
TYPING_SECONDS_MIN: Final = 3.0
CONNECTION: Final[Hashable] = "connection"
"""Key of the events Connected and Disconnected, of which only the latest matters."""

HEAD: Final = "head"
"""Part of the key of an event about a chat's head. A later event about the head replaces it, and so
does the end of the chat."""
NOTIFICATION: Final = "notification"
"""Part of the key of a notification and its retraction. The retraction replaces a notification that
the application has not got yet."""


class Conversation:
    """The state of a client, and its reaction to each frame. Times are monotonic."""

    def __init__(
        self,
        saved: Saved,
        outbox: Outbox,
        queue: EventQueue,
        notebook: Notebook,
        outcome: Outcome,
        selection: Selection | None = None,
    ) -> None:
        self.is_live = False
        self._selection = selection or Selection()
        self._queue = queue
        self._notebook = notebook
        self._receipts = Receipts(saved.reads)
        self._requests = Requests()
        self.sending = Sending(outbox, self._requests, queue, notebook, outcome)
        self.erasures = Erasures(saved.erasures)
        self._following = Following(
            saved, queue, notebook, self._receipts, self.sending, self.erasures
        )
        self._inboxes = InboxEvents()
        self._questions: list[Question] = []
        """Questions of the application that were not sent yet."""
        self._fetches_from = 0.0
        """The time before which the server wants no further requests for missing entries."""
        self._typed_at: dict[str, float] = {}
        self._line: Line | None = None
        self._is_welcome = False
        self._device = ""
        self._heartbeat = Heartbeat(0)

    @property
    def user(self) -> str | None:
        """The user of the client, as reported by the server; None before the first connection."""
        return self._following.user

    def place_of(self, chat: str) -> tuple[int | None, str | None]:
        """Return the last applied entry of a chat, if any, and the epoch of the server; None for
        both unless the client is live.

        Before the client is live, it may lack many entries. With an outdated entry, the server
        would have to search all later entries for the message, and a busy chat would refuse the
        message again and again.
        """
        if not self.is_live:
            return None, None
        return self._following.have_of(chat), self._following.epoch

    # The life of a connection.

    def connected(
        self, line: Line, token: str, device: str | None, now: float, wall_ms: int
    ) -> None:
        """Send hello on a new connection; `line` sends a frame.

        Messages that became too old while there was no connection are given up first.
        """
        self.sending.expire(wall_ms)
        self._line = line
        self._heartbeat = Heartbeat(now)
        have = self._following.have() or None
        epoch, place = self._following.epoch, self.erasures.place
        self._say(self._selection.hello(token, device, epoch, have, place))

    def leaving(self) -> None:
        """Send the last `received` frames before the connection is closed."""
        if self._is_welcome:
            self._say_received(is_tick=True)

    def lost(self) -> None:
        """Handle the loss of the connection."""
        self._line = None
        self._is_welcome = self.is_live = False
        self._questions += self._requests.lost()
        self._following.lost()
        self._receipts.lost()
        self.sending.lost()

    def tick(self, now: float, wall_ms: int) -> str | None:
        """Do the regular work, twice a second; return a reason to drop the connection, if any."""
        self.sending.expire(wall_ms)
        if self._line is None:
            return None
        if self._requests.is_overdue(now):
            return "the server does not answer"
        match self._heartbeat.tick(now):
            case "ping":
                self._say(Ping())
            case "dead":
                return "the server is silent"
            case None:
                pass
        if self._is_welcome:
            self._say_received(is_tick=True)
        if self.is_live:
            self._following.settle()
            for chat in self._selection.due(now):
                self._follow(chat)
        self.pump(now)
        return None

    # Calls of the application.

    def taken(self, mark: Mark) -> None:
        """Record that the application has confirmed an event."""
        match mark:
            case Position():
                self._following.taken(mark)
            case Dropped(erasures=place):
                self._notebook.changes.erasures = place
                self._notebook.wake()
            case _:
                self.sending.told(mark.key)
        if self._is_welcome:
            self._say_received(is_tick=False)

    def read(self, chat: str, sequence: int) -> None:
        """Record and send that the user has read a chat up to a sequence."""
        dropped = self._receipts.read(chat, sequence)
        if dropped is None:
            return
        reads = self._notebook.changes.reads
        reads.pop(chat, None)
        reads |= {chat: sequence, **dict.fromkeys(dropped)}
        self._notebook.wake()
        if self._is_welcome:
            self._say(Read(chat, sequence))

    def follow(self, chat: str) -> None:
        """Request the entries of a chat, on this connection and every later one."""
        if self._selection.add(chat) and self._is_welcome:
            self._follow(chat)

    def away(self, is_away: bool) -> None:
        """Report on this connection and every later one that the device is away, or no longer
        away."""
        if self._selection.is_away != is_away:
            self._selection.is_away = is_away
            if self._is_welcome:
                self._say(Away(is_away))

    def typing(self, chat: str, now: float) -> None:
        """Send that the user is typing, at most every three seconds and only while live."""
        if self.is_live and now - self._typed_at.get(chat, float("-inf")) >= TYPING_SECONDS_MIN:
            self._typed_at[chat] = now
            self._say(TypingFrame(chat))

    def ask(self, question: Question, now: float) -> None:
        """Request a page from the server, now or when there is a connection."""
        self._questions.append(question)
        self.pump(now)

    # Frames of the server.

    def receive(self, frame: ServerFrame, now: float) -> None:
        """Handle a frame of the server.

        Raises:
            WrongUser: The token belongs to another user than the saved state.
        """
        match frame:
            case Entry():
                self._following.take(frame)
            case SentFrame():
                self._sent(frame)
            case Page():
                self._page(frame)
            case RefusedFrame():
                self._refused(frame, now)
            case Pong():
                self._heartbeat.pong()
            case Welcome():
                self._welcome(frame, now)
            case Live():
                self._live()
            case Resync():
                self._following.resync(frame.chat, frame.head)
            case Heads():
                self._heads(frame)
            case Gone():
                self._gone(frame.chat)
            case ErasedFrame():
                self._erased(frame)
            case NotificationFrame() | RetractedFrame():
                if isinstance(frame, NotificationFrame):
                    self._selection.saw(frame)
                if (event := self._inboxes.take(frame)) is not None:
                    self._queue.put_notice(event, (NOTIFICATION, frame.inbox, frame.id))
            case _:
                if (notice := notice_of(frame)) is not None:
                    self._queue.put_notice(*notice)
        self.pump(now)

    def _welcome(self, frame: Welcome, now: float) -> None:
        if self.user is not None and self.user != frame.user:
            raise WrongUser(self.user, frame.user)
        if frame.epoch != self._following.epoch:
            self._inboxes.forget()
        self._is_welcome = True
        self._device = frame.device
        self._heartbeat.welcomed(now, frame.heartbeat_ms)
        self._following.welcome(frame.user, frame.epoch)
        for choice in self._selection.welcome(self._following.have()):
            self._say(choice)

    def _live(self) -> None:
        self.is_live = True
        self._following.live(self._selection.named)
        for mark in self._receipts.marks():
            self._say(mark)
        connected = Connected(user=self.user or "", device=self._device)
        self._queue.put_notice(connected, CONNECTION)

    def _erased(self, frame: ErasedFrame) -> None:
        if (event := self.erasures.take(frame)) is not None:
            self._queue.revise(self.erasures.shown)
            self._queue.put(event, Dropped(frame.n))

    def _heads(self, frame: Heads) -> None:
        """Report the heads of chats that this client does not follow."""
        for chat, head in frame.chats.items():
            self._selection.named.add(chat)
            if chat not in self._selection:
                self._queue.put_notice(ChatHead(chat=chat, head=head), (HEAD, chat))
            elif self.is_live:
                self._follow(chat)  # the user left the chat and is back

    def _gone(self, chat: str) -> None:
        if not self._following.gone(chat) and chat in self._selection.named:
            # The application knows the chat only by its head.
            self._queue.put_notice(ChatGone(chat=chat), (HEAD, chat))
        self._selection.drop(chat)

    def _sent(self, frame: SentFrame) -> None:
        message = self._requests.answered(frame.id)
        if isinstance(message, Outgoing):
            self.sending.sent(message, frame)
            self._following.sent(message, frame)
        else:
            self._following.sent(None, frame)

    def _page(self, frame: Page) -> None:
        match self._requests.answered(frame.id):
            case Want() as want:
                self._following.page(want, frame)
            case Question() as question:
                question.answer(frame)
            case _:
                pass

    def _refused(self, frame: RefusedFrame, now: float) -> None:
        match self._requests.answered(frame.id):
            case Outgoing() as message:
                self.sending.refused(message, frame, now)
            case Want() as want:
                self._fetches_from = now + (frame.retry_after_ms or 0) / 1_000
                self._following.refused(want, frame)
            case Question() as question:
                question.answer(_as_error(frame))
            case None:
                if frame.retryable:
                    self._selection.refused(frame.id, frame.retry_after_ms, now)

    # Frames to the server.

    def pump(self, now: float) -> None:
        """Send everything that can be sent now.

        The outbox does not wait for `live`. Otherwise an application that waits for its `send`
        before it requests the next event would wait forever.
        """
        if not self._is_welcome:
            return
        self.sending.pump(self._say, now, self._following.epoch)
        questions, self._questions = self._questions, []
        for one in questions:
            name = self._requests.ask(one, now)
            self._say(Fetch(name, one.chat, one.limit, one.after, one.before))
        is_allowed = now >= self._fetches_from and self._requests.fetches < FETCHES_MAX
        if is_allowed and self._queue.room >= FETCH_ENTRIES:
            self._fetch(now)

    def _fetch(self, now: float) -> None:
        for want in self._following.wants():
            limit = FETCH_ENTRIES if want.before is None else RESYNC_ENTRIES
            name = self._requests.ask(want, now)
            self._say(Fetch(name, want.chat, limit, want.after, want.before))
            if self._requests.fetches >= FETCHES_MAX:
                return

    def _follow(self, chat: str) -> None:
        self._say(self._selection.frame(chat, self._following.have()))

    def _say_received(self, *, is_tick: bool) -> None:
        for frame in self._receipts.received(is_tick=is_tick):
            self._say(frame)

    def _say(self, frame: ClientFrame) -> None:
        if self._line is not None:
            self._line(frame)


def _as_error(frame: RefusedFrame) -> Refused | Unavailable:
    if frame.retryable:
        return Unavailable(f"{frame.code}: {frame.detail}")
    return Refused(frame.code, frame.detail)
