# SPDX-License-Identifier: Apache-2.0
"""Whatever users do in whatever order, the product does what a small reference says."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.model.ground import picks
from tests.model.lines import Options
from tests.model.member_rules import MemberRules
from tests.model.message_rules import ONE, MessageRules, Send
from tests.model.product import Engine
from tests.model.reading_rules import ReadingRules
from tests.model.running import IS_SOAK, LONG, QUICK, SHORT, run, run_until
from tests.model.time_rules import TimeRules
from tests.support.engine import ENGINES
from tidings.model.entries import Kind
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.stores.dynamodb.chat import heads

EVERYTHING: Final = {
    *get_args(Kind),
    *("repeat", "expired", "read mark moved by itself", "heir", "emptied group"),
    *("marked unread", "mark ended", "time of reading", "blocked", "Invalid"),
    "several unread chats",
    *("ChatNotFound", "MessageNotFound", "MemberNotFound", "UserNotFound", "Forbidden"),
    *("SendConflict", "MessageGone", "DirectChatFixed", "LastOwner", "ReceiptBeyondHead"),
}
"""What a run that tests anything has met at least once."""
MARKS: Final = ("marked unread", "mark ended", "read mark moved by itself")
IN_SHORT: Final = {*get_args(Kind)} - {"unreacted"}
"""Kinds of entries that short runs meet; all are met by those on SQLite."""
SHORTER: Final = settings(SHORT, max_examples=8)
FEW: Final = settings(SHORT, max_examples=4)
SEEDS: Final = (1, 2)
"""Together they meet everything, as long as the rules are the same."""
SHORT_SEEDS: Final = (23,)
"""It meets these kinds of entries in short runs."""
FLEET_SEEDS: Final = (18,)
"""It meets all that becomes of marks, in few short runs of two processes."""


class ChatMachine(MessageRules, MemberRules, TimeRules, ReadingRules):
    """Users of one tenant, doing everything that can be done with chats."""


@pytest.mark.slow
def test_the_product_does_what_the_reference_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    happened = run_until(EVERYTHING, ChatMachine, engine_of("sqlite"), tmp_path, QUICK, SEEDS)
    assert {what for what in EVERYTHING if not happened[what]} == set()


@pytest.mark.slow
def test_the_product_does_so_on_dynamodb(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    """Fewer steps: each is a few requests to another process."""
    engine = engine_of("dynamodb")
    happened = run_until(IN_SHORT, TablesMachine, engine, tmp_path, SHORTER, SHORT_SEEDS)
    assert {kind for kind in IN_SHORT if not happened[kind]} == set()


class TablesMachine(ChatMachine):
    """The same on tables, where every look at a chat takes some requests to another process."""

    compares_all_every = 1 if IS_SOAK else 5


class FleetMachine(TablesMachine):
    """The same users, whose requests go to two processes in turn."""

    processes = 2

    def _send(
        self, chat: ChatId, user: UserKey, doing: Send, options: Options | None = None
    ) -> None:
        """Send; an id whose week is over is not used again.

        A process that reads what another one wrote finds a repeat there, however old it is. That is
        allowed, but whether a process has to read depends on what it did before.
        """
        keys, now = self.rooms[chat].keys, self.now
        if doing.cmid is not None and keys.get((user, doing.cmid), (None, 0, now + 1))[2] <= now:
            doing = doing._replace(cmid=None)
        super()._send(chat, user, doing, options)

    def _react(self, chat: ChatId, user: UserKey, target: int, emoji: str, away: bool) -> None:
        """React; in a frozen chat nothing changes, whatever the answer.

        A process that has not read yet that the chat is frozen says of what is so already that it
        is so. It reads only before it changes something.
        """
        if not self.rooms[chat].frozen:
            super()._react(chat, user, target, emoji, away)
            return
        with suppress(Refusal):
            self.product.run(self.product.verbs.react(user, chat, target, emoji, away=away))

    def _pin(self, chat: ChatId, user: UserKey, target: int, away: bool) -> None:
        """Pin; in a frozen chat nothing changes, whatever the answer."""
        if not self.rooms[chat].frozen:
            super()._pin(chat, user, target, away)
            return
        with suppress(Refusal):
            self.product.run(self.product.verbs.pin(user, chat, target, away=away))

    @rule(chat=ChatMachine.chats, pick=picks, others=st.booleans())
    def write_after_a_mark(self, chat: ChatId, pick: int, others: bool) -> None:
        """A process in which older messages were unread hears nothing of the mark in the other."""
        room, message = self.room(chat), Send(0, None, ONE, None)
        user, other = self.who(chat, pick), self.who(chat, pick + 8)
        for sender in (other, user) if others else (user,):
            self._send(chat, sender, message)
            self.product.run(self.product.flush(sender, chat))
        self.product.switch()
        self._mark_unread(chat, user, len(room.log))
        self.product.switch()
        self._send(chat, user, message)
        self.product.run(self.product.flush(user, chat))
        may_write = not room.frozen and not room.slow_mode_seconds
        if user in room.members and may_write and not self.tenancy.is_banned(user, self.now):
            receipt = self.product.run(self.product.receipts(user, chat))[user]
            assert not receipt.is_marked_unread


@pytest.fixture
def swift_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head copies are written at once, not once a second."""
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 0.0)


@pytest.mark.slow
@pytest.mark.usefixtures("swift_copies")
def test_two_processes_do_so_together(engine_of: Callable[[str], Engine], tmp_path: Path) -> None:
    happened = run_until(MARKS, FleetMachine, engine_of("dynamodb"), tmp_path, FEW, FLEET_SEEDS)
    assert {what for what in MARKS if not happened[what]} == set()


@pytest.mark.soak
@pytest.mark.usefixtures("swift_copies")
def test_two_processes_do_so_together_for_long(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    seeds = (random.randrange(2**32) for _ in range(50))
    run(FleetMachine, engine_of("dynamodb"), tmp_path, LONG, seeds)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_the_product_does_what_the_reference_says_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    run(
        ChatMachine,
        engine_of(engine),
        tmp_path,
        LONG,
        (random.randrange(2**32) for _ in range(200)),
    )
