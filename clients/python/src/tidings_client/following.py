# SPDX-License-Identifier: Apache-2.0
"""Follow the logs: convert frames of the server to events, and record the changes to save."""

from collections.abc import Container, Iterator

from tidings_client.entry_events import event_of
from tidings_client.erasures import Erasures
from tidings_client.event_queue import EventQueue, Position
from tidings_client.events import ChatGone, ChatResynced
from tidings_client.frames import Entry, Page, RefusedFrame, SentFrame
from tidings_client.log_view import Apply, Forget, LogView, Restart, Step, Want
from tidings_client.notebook import Notebook
from tidings_client.receipts import Receipts
from tidings_client.saved import Held, Outgoing, Saved
from tidings_client.sending import Sending, own_entry


class Following:
    """The logs of one user's chats in one epoch, as far as they have arrived."""

    def __init__(
        self,
        saved: Saved,
        queue: EventQueue,
        notebook: Notebook,
        receipts: Receipts,
        sending: Sending,
        erasures: Erasures,
    ) -> None:
        self.user = saved.user
        self.epoch = saved.epoch
        self._queue = queue
        self._notebook = notebook
        self._receipts = receipts
        self._sending = sending
        self._erasures = erasures
        held = {chat: one.have for chat, one in saved.held.items() if one.epoch == saved.epoch}
        self._view = LogView(held, saved.held.keys() - held.keys(), lambda: queue.room > 0)

    # The life of a connection.

    def have(self) -> dict[str, int]:
        """Return the last applied entry of each chat, for hello."""
        return self._view.have()

    def have_of(self, chat: str) -> int | None:
        """Return the last applied entry of one chat, if any."""
        return self._view.have_of(chat)

    def welcome(self, user: str, epoch: str) -> None:
        """Handle `welcome`: if the epoch has changed, nothing that was applied is valid."""
        if epoch == self.epoch:
            return
        if self.epoch is not None:
            self._view.epoch_changed()
            self._receipts.forget_all()
        self.user, self.epoch = user, epoch
        self._notebook.changes.user = user
        self._notebook.changes.begin_epoch(epoch)
        self._notebook.wake()

    def live(self, named: Container[str] = ()) -> None:
        """Handle `live`; `named` are the chats of which the server has sent only the head."""
        self._do(self._view.live(named))

    def settle(self) -> None:
        """Mark overdue entries as missing."""
        self._view.settle()

    def lost(self) -> None:
        """Handle the loss of the connection."""
        self._view.lost()

    # Frames of the server.

    def take(self, entry: Entry) -> None:
        """Handle an entry."""
        self._do(self._view.take(entry))

    def sent(self, message: Outgoing | None, frame: SentFrame) -> None:
        """Handle `sent` for a message of this user; `message` is None if its content is no longer
        known."""
        if message is None:
            self._view.told(frame.chat, frame.sequence)
        else:
            self._do(self._view.take_own(own_entry(message, self.user or "", frame)))

    def resync(self, chat: str, head: int) -> None:
        """Start a chat again at the newest page."""
        self._view.resync(chat, head)

    def gone(self, chat: str) -> bool:
        """Forget a chat that was deleted or that the user left; return whether it was known."""
        steps = self._view.gone(chat)
        self._do(steps)
        return bool(steps)

    def wants(self) -> Iterator[Want]:
        """Yield the missing parts of logs to request."""
        return self._view.wants()

    def page(self, want: Want, page: Page) -> None:
        """Handle the page that was requested for a missing part."""
        self._do(self._view.page(want, page.entries, page.head))

    def refused(self, want: Want, frame: RefusedFrame) -> None:
        """Handle the refusal of a request for a missing part."""
        if frame.code == "chat.not_found":
            self.gone(want.chat)
        else:
            self._view.unanswered(want)

    # Confirmations of the application.

    def taken(self, position: Position) -> None:
        """Save the new position in a chat, and report it to the server.

        This happens only after the application has confirmed the event.
        """
        self._notebook.changes.held[position.chat] = position.held
        self._notebook.wake()
        if position.held is not None and position.held.epoch == self.epoch:
            self._receipts.taken(position.chat, position.held.have, is_awaited=position.is_awaited)

    # Helpers.

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
        self._queue.put(self._erasures.shown(event_of(entry)), mark)

    def _held(self, have: int) -> Held:
        assert self.epoch is not None, "entries come after welcome"
        return Held(self.epoch, have)
