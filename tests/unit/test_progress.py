# SPDX-License-Identifier: Apache-2.0
"""Progress against a naive client: in order, each once, never beyond the window, nothing lost."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidings.gateway.progress import DeliveryProgress, Position
from tidings.model import limits
from tidings.model.ids import ChatId

WINDOW = 5
CHATS = [ChatId("a"), ChatId("b"), ChatId("c")]
chats = st.sampled_from(CHATS)


class Client:
    """What a client that takes everything as it comes would have of one chat."""

    def __init__(self, start: int) -> None:
        self.has = start
        """The last sequence it knows, by an entry or by the answer to its own send."""
        self.unacknowledged: list[int] = []

    def take(self, sequence: int) -> None:
        assert sequence == self.has + 1, f"{sequence} came after {self.has}"
        self.has = sequence
        self.unacknowledged.append(sequence)

    def take_own(self, sequence: int) -> None:
        if sequence == self.has + 1:
            self.has = sequence

    def acknowledge(self, sequence: int) -> None:
        self.unacknowledged = [one for one in self.unacknowledged if one > sequence]


class ProgressMachine(RuleBasedStateMachine):
    """Some chats of one connection; logs grow, events get lost, the client is slow."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = DeliveryProgress(WINDOW)
        self.heads = dict.fromkeys(CHATS, 10)
        self.clients: dict[ChatId, Client] = {}
        self.lost: set[ChatId] = set()
        """Chats in which an event did not arrive and no later one has yet."""

    def position(self, chat: ChatId) -> Position:
        position = self.progress.get(chat)
        assert position is not None
        return position

    def followed(self) -> list[ChatId]:
        return [chat for chat in CHATS if chat in self.clients]

    @rule(chat=chats, missing=st.integers(0, 8))
    def start(self, chat: ChatId, missing: int) -> None:
        have = self.heads[chat] - missing
        self.progress.start(chat, have, self.heads[chat], is_small=True)
        self.clients[chat] = Client(have)
        self.lost.discard(chat)

    @rule(chat=chats)
    def leave(self, chat: ChatId) -> None:
        self.progress.leave(chat)
        self.clients.pop(chat, None)
        assert self.progress.get(chat) is None

    @rule(chat=chats, is_own=st.booleans())
    def append(self, chat: ChatId, is_own: bool) -> None:
        self.heads[chat] += 1
        if is_own:
            self.progress.sent_own(chat, self.heads[chat])
        if chat in self.clients:
            if is_own and not self.position(chat).is_behind and chat not in self.lost:
                self.clients[chat].take_own(self.heads[chat])
            self.offer(chat, self.heads[chat])
            self.lost.discard(chat)

    def offer(self, chat: ChatId, sequence: int) -> None:
        position, client = self.position(chat), self.clients[chat]
        match self.progress.offer(position, sequence):
            case "send":
                assert len(client.unacknowledged) < WINDOW
                self.progress.sent(position, sequence)
                client.take(sequence)
            case "drop":
                assert sequence <= client.has
            case "later":
                assert sequence > client.has
                assert position.is_behind

    @rule(chat=chats)
    def append_unseen(self, chat: ChatId) -> None:
        self.heads[chat] += 1
        if chat in self.clients:
            self.lost.add(chat)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def repeat_an_event(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from(self.followed()))
        self.offer(chat, data.draw(st.integers(1, self.position(chat).head)))

    @rule(entries=st.integers(1, 4))
    def read_the_log(self, entries: int) -> None:
        """One page for each chat that is behind, as far as there is room."""
        for chat in self.progress.behind():
            position = self.position(chat)
            for _ in range(min(entries, self.progress.room)):
                if position.sent < self.heads[chat]:
                    self.progress.sent(position, position.sent + 1)
                    self.clients[chat].take(position.sent)
            position.head = self.heads[chat]
            self.lost.discard(chat)
            assert self.progress.caught_up(position) == (position.sent == position.head)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from(self.followed()))
        sequence = data.draw(st.integers(0, self.position(chat).sent))
        self.progress.received(self.position(chat), sequence)
        self.clients[chat].acknowledge(sequence)

    @rule(is_paused=st.booleans())
    def pause(self, is_paused: bool) -> None:
        self.progress.is_paused = is_paused

    @invariant()
    def it_knows_what_the_client_has(self) -> None:
        for chat, client in self.clients.items():
            assert self.position(chat).sent == client.has

    @invariant()
    def what_is_missing_is_behind(self) -> None:
        for chat, client in self.clients.items():
            if client.has < self.heads[chat] and chat not in self.lost:
                assert self.position(chat).is_behind
        behind = {chat for chat in self.clients if self.position(chat).is_behind}
        assert set(self.progress.behind()) == behind

    @invariant()
    def the_window_holds(self) -> None:
        open_entries = sum(len(client.unacknowledged) for client in self.clients.values())
        counted = sum(self.position(chat).unacknowledged for chat in self.clients)
        assert open_entries <= counted <= WINDOW
        assert self.progress.is_window_full == (counted >= WINDOW)
        assert self.progress.room == (0 if self.progress.is_paused else WINDOW - counted)

    def teardown(self) -> None:
        """A client that acknowledges what it has gets all the rest."""
        self.progress.is_paused = False
        for chat in self.followed():
            self.append(chat, is_own=False)
        for _ in range(100):
            for chat, client in self.clients.items():
                self.progress.received(self.position(chat), client.has)
                client.acknowledge(client.has)
            self.read_the_log(entries=4)
        assert all(client.has == self.heads[chat] for chat, client in self.clients.items())
        assert self.progress.behind() == []


ProgressMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestProgress = ProgressMachine.TestCase


def test_the_window_is_the_protocols() -> None:
    progress = DeliveryProgress()
    chat = CHATS[0]
    position = progress.start(chat, 0, 0, is_small=True)
    for sequence in range(1, limits.WINDOW_ENTRIES + 1):
        assert progress.offer(position, sequence) == "send"
        progress.sent(position, sequence)
    assert progress.offer(position, limits.WINDOW_ENTRIES + 1) == "later"


def test_leaving_a_chat_gives_its_share_of_the_window_back() -> None:
    progress = DeliveryProgress(2)
    position = progress.start(CHATS[0], 0, 0, is_small=True)
    for sequence in (1, 2):
        progress.sent(position, sequence)
    assert progress.is_window_full
    progress.leave(CHATS[0])
    assert progress.room == 2
