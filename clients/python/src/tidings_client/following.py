# SPDX-License-Identifier: Apache-2.0
"""Following the logs: from what the server tells to events, and to what has to be kept of them."""

from collections.abc import Iterator

from tidings_client.entry_events import event_of
from tidings_client.event_queue import EventQueue, Position
from tidings_client.events import ChatGone, ChatResynced
from tidings_client.frames import Entry, Page, RefusedFrame, SentFrame
from tidings_client.log_view import Apply, Forget, LogView, Restart, Step, Want
from tidings_client.notebook import Notebook
from tidings_client.receipts import Receipts
from tidings_client.saved import Held, Outgoing, Saved
from tidings_client.sending import Sending, own_entry


class Following:
    """The logs of one user's chats under one epoch, as far as they came."""

    def __init__(
        self,
        saved: Saved,
        queue: EventQueue,
        notebook: Notebook,
        receipts: Receipts,
        sending: Sending,
    ) -> None:
        self.user = saved.user
        self.epoch = saved.epoch
        self._queue = queue
        self._notebook = notebook
        self._receipts = receipts
        self._sending = sending
        held = {chat: one.have for chat, one in saved.held.items() if one.epoch == saved.epoch}
        self._view = LogView(held, saved.held.keys() - held.keys(), lambda: queue.room > 0)

    # The life of a connection.

    def have(self) -> dict[str, int]:
        """What to say in hello."""
        return self._view.have()

    def welcome(self, user: str, epoch: str) -> None:
        """The server said whose logs these are, and whether they are the ones held."""
        if epoch == self.epoch:
            return
        if self.epoch is not None:
            self._view.epoch_changed()
            self._receipts.forget_all()
        self.user, self.epoch = user, epoch
        self._notebook.changes.user = user
        self._notebook.changes.begin_epoch(epoch)
        self._notebook.wake()

    def live(self) -> None:
        """The server has told of every chat."""
        self._do(self._view.live())

    def settle(self) -> None:
        """Ask for what should have come by now."""
        self._view.settle()

    def lost(self) -> None:
        """The connection is gone."""
        self._view.lost()

    # What the server tells.

    def take(self, entry: Entry) -> None:
        """An entry."""
        self._do(self._view.take(entry))

    def sent(self, message: Outgoing | None, frame: SentFrame) -> None:
        """An own message has its place; None if it is not known any more what it said."""
        if message is None:
            self._view.told(frame.chat, frame.sequence)
        else:
            self._do(self._view.take_own(own_entry(message, self.user or "", frame)))

    def resync(self, chat: str, head: int) -> None:
        """Start over at the newest page."""
        self._view.resync(chat, head)

    def gone(self, chat: str) -> None:
        """Not (any more) the user's."""
        self._do(self._view.gone(chat))

    def wants(self) -> Iterator[Want]:
        """What to ask for."""
        return self._view.wants()

    def page(self, want: Want, page: Page) -> None:
        """What was asked for."""
        self._do(self._view.page(want, page.entries, page.head))

    def refused(self, want: Want, frame: RefusedFrame) -> None:
        """What was asked for is not given."""
        if frame.code == "chat.not_found":
            self.gone(want.chat)
        else:
            self._view.unanswered(want)

    # What the application has taken.

    def taken(self, position: Position) -> None:
        """Only now does an entry count as held, for this device and for the server."""
        self._notebook.changes.held[position.chat] = position.held
        self._notebook.wake()
        if position.held is not None and position.held.epoch == self.epoch:
            self._receipts.taken(position.chat, position.held.have, is_awaited=position.is_awaited)

    # What follows.

    def _do(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Apply(entry):
                    self._apply(entry)
                case Restart(chat, start):
                    event = ChatResynced(chat=chat, start=start)
                    self._queue.put(event, Position(chat, self._held(start - 1)))
                case Forget(chat):
                    self._receipts.forget(chat)
                    self._notebook.changes.reads[chat] = None
                    self._queue.put(ChatGone(chat=chat), Position(chat, None))

    def _apply(self, entry: Entry) -> None:
        is_own = entry.sender == self.user
        if is_own and entry.kind == "message":
            self._sending.seen(entry)
        mark = Position(entry.chat, self._held(entry.sequence), is_awaited=not is_own)
        self._queue.put(event_of(entry), mark)

    def _held(self, have: int) -> Held:
        assert self.epoch is not None, "entries come after welcome"
        return Held(self.epoch, have)
