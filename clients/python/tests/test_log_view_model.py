# SPDX-License-Identifier: Apache-2.0
"""Any order of entries, repeats, gaps, cuts, resyncs and restores ends with the server's log."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from clients.python.tests.entries import message
from tidings_client.frames import Entry
from tidings_client.log_view import Apply, Forget, LogView, Restart, Step, Want

CATCH_UP_MAX = 6
PAGE = 3
CHAT = "c"


class Simulation:
    """A server with one chat, a line that loses things, and a screen that shows the steps."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.epoch = self.known_epoch = 0
        self.sent = 0
        """How far the server has sent, on this connection."""
        self.has_room = True
        self.asked: list[tuple[Want, list[Entry], int]] = []
        """Fetches, with what the server has read for them: the answer may take its time."""
        self.screen: list[Entry] = []
        self.view = LogView({}, (), lambda: self.has_room)
        self.append(1)
        self.connect()

    def show(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Apply(entry):
                    if self.screen:
                        assert entry.sequence == self.screen[-1].sequence + 1
                    self.screen.append(entry)
                case Restart():
                    self.screen = []
                case Forget():
                    raise AssertionError("the chat was there all the time")
        self.asked += [(want, *self.page(want)) for want in self.view.wants()]

    # What can happen.

    def append(self, count: int) -> None:
        """Others write; nothing has been sent of it yet."""
        for sequence in range(len(self.log) + 1, len(self.log) + 1 + count):
            self.log.append(message(sequence, content=f"epoch {self.epoch}, {sequence}"))

    def deliver(self, count: int) -> None:
        """The next entries come."""
        for entry in self.log[self.sent : self.sent + count]:
            self.show(self.view.take(entry))
        self.sent = min(self.sent + count, len(self.log))

    def lose(self, count: int) -> None:
        """Entries that the server believes to have sent."""
        self.sent = min(self.sent + count, len(self.log))

    def repeat(self, back: int) -> None:
        """An entry comes again, or ahead of its time."""
        self.show(self.view.take(self.log[-1 - back % len(self.log)]))

    def post(self, _: int) -> None:
        """An own message is acknowledged; the server does not send it if it was up to date."""
        self.append(1)
        if self.sent == len(self.log) - 1:
            self.sent += 1
        self.show(self.view.take_own(self.log[-1]))

    def answer(self, count: int) -> None:
        """Fetches are answered, the oldest first."""
        answered, self.asked = self.asked[:count], self.asked[count:]
        for answer in answered:
            self.show(self.view.page(*answer))

    def refuse(self, _: int) -> None:
        """A fetch is turned away for now."""
        if self.asked:
            self.view.unanswered(self.asked.pop(0)[0])

    def tick(self, _: int) -> None:
        self.view.settle()
        self.show([])

    def fill(self, is_full: int) -> None:
        self.has_room = is_full % 2 == 0

    def cut(self, _: int) -> None:
        """The connection is lost, and another one made."""
        self.view.lost()
        self.asked.clear()
        self.connect()

    def restore(self, back: int) -> None:
        """The server comes back from a backup, under a new epoch."""
        self.epoch += 1
        del self.log[max(1, len(self.log) - back) :]
        self.append(1)
        self.cut(0)

    # How the server answers.

    def connect(self) -> None:
        have, head = self.view.have().get(CHAT), len(self.log)
        is_same = self.epoch == self.known_epoch
        if not is_same:
            self.view.epoch_changed()
            self.known_epoch = self.epoch
        if have is None:
            self.sent = max(0, head - CATCH_UP_MAX)
        elif is_same and 0 <= head - have <= CATCH_UP_MAX:
            self.sent = have
        else:
            self.view.resync(CHAT, head)
            self.sent = head
        self.show([])

    def page(self, want: Want) -> tuple[list[Entry], int]:
        if want.after is not None:
            return self.log[want.after : want.after + PAGE], len(self.log)
        assert want.before is not None
        end = want.before - 1
        return self.log[max(0, end - PAGE) : end], len(self.log)

    def come_to_rest(self, *, is_cut: bool) -> None:
        """All is delivered and answered; then the view has to be complete.

        Without another connection, one more entry tells of those that were lost.
        """
        self.has_room = True
        self.append(1)
        if is_cut:
            self.cut(0)
        self.deliver(len(self.log))
        self.show(self.view.live())
        for _ in range(len(self.log) + 2):
            self.tick(0)
            self.answer(len(self.asked))


Action = Callable[[Simulation, int], None]

ACTIONS: list[Action] = [
    Simulation.append,
    Simulation.deliver,
    Simulation.deliver,
    Simulation.lose,
    Simulation.repeat,
    Simulation.post,
    Simulation.answer,
    Simulation.answer,
    Simulation.refuse,
    Simulation.tick,
    Simulation.fill,
    Simulation.cut,
    Simulation.restore,
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), max_size=40), st.booleans())
def test_the_screen_ends_as_the_log(story: list[tuple[Action, int]], is_cut: bool) -> None:
    simulation = Simulation()
    for action, number in story:
        action(simulation, number)
    simulation.come_to_rest(is_cut=is_cut)
    assert simulation.screen == simulation.log[len(simulation.log) - len(simulation.screen) :]
    assert simulation.screen
    assert simulation.view.have() == {CHAT: len(simulation.log)}
