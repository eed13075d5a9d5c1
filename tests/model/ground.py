# SPDX-License-Identifier: Apache-2.0
"""What all rules of the state machine stand on: the two worlds, and doing a thing in both."""

import itertools
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
)
from hypothesis.strategies import SearchStrategy

from tests.contract.test_people import a_signing_key, a_tenant
from tests.model.product import Engine, Product
from tests.model.reference import Room
from tests.model.tenancy import Tenancy
from tests.support.canary import canary
from tidings.model.chats import ChatType, Receipt
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.model.refusals import Refusal, UserNotAddable

A = TypeVar("A")
B = TypeVar("B")

USERS: Final = [user_key("acme", name) for name in ("ann", "bob", "cat", "dan")]
NOBODY: Final = user_key("acme", "nobody")
ROOMS_MAX: Final = 3

users: SearchStrategy[UserKey] = st.sampled_from(USERS)
names: SearchStrategy[str] = st.sampled_from(["Red", "Green", "Blue"])
picks: SearchStrategy[int] = st.integers(0, 999)
"""Which of the things that are there by then."""


def several(doings: SearchStrategy[A]) -> SearchStrategy[list[A]]:
    """A few things in a row: a run has only so many steps, and each leaves out some rules."""
    return st.lists(doings, min_size=2, max_size=6)


class Ground(RuleBasedStateMachine):
    """Chats in the product and in the reference."""

    chats: Bundle[ChatId] = Bundle("chats")
    processes = 1
    """Number of processes that serve the users in turn."""

    def __init__(self, engine: Engine, folder: Path, happened: Counter[str]) -> None:
        super().__init__()
        self.happened = happened
        self.product = Product(engine, folder, USERS, self.processes)
        tenants = self.product.deployment.core.store.tenants
        self.product.run(tenants.put(a_tenant(), a_signing_key("s1")))
        self.rooms: dict[ChatId, Room] = {}
        self.pairs: dict[frozenset[UserKey], ChatId] = {}
        self.tenancy = Tenancy()
        self.blocks = self.tenancy.blocks
        self.shown: dict[tuple[ChatId, str], tuple[int, int]] = {}
        """What the blocked see of the receipt of a user who blocks them, at most."""
        self.touched: set[ChatId] = set()
        """The chats that may have changed since they were last compared."""
        self.fresh = itertools.count()
        self.kept_ms: int | None = None
        """How long the tenant has content kept."""

    def teardown(self) -> None:
        try:
            self.product.check_copies()
        finally:
            self.product.close()
        for room in self.rooms.values():
            self.happened.update(line.kind for line in room.log)
            self.happened["expired"] += sum(line.gone(self.now) == "expired" for line in room.log)
            self.happened["emptied group"] += not room.members and room.log[-1].kind != "deleted"

    @property
    def now(self) -> int:
        return self.product.clock.now()

    def move_clock(self, time: int) -> None:
        """It is now that late, which may change what is to be seen anywhere."""
        self.product.clock.time = time
        self.touched.update(self.rooms)

    def room(self, chat: ChatId) -> Room:
        """The chat in the reference, about to be changed."""
        self.touched.add(chat)
        return self.rooms[chat]

    def who(self, chat: ChatId, pick: int) -> UserKey:
        """A member of the chat, now and then anybody, who asks the next process."""
        self.product.switch()
        members = sorted(self.rooms[chat].members)
        if pick % 8 == 0 or not members:
            return USERS[pick // 8 % len(USERS)]
        return UserKey(members[pick // 8 % len(members)])

    def note_ended_mark(self, room: Room, user: str, receipt: Receipt) -> None:
        """What ends a mark as unread does so a little later: see whether it has."""
        member = room.members[user]
        if member.mark_may_end and not receipt.is_marked_unread:
            self.happened["mark ended"] += member.unread_from > 0
            member.unread_from = 0
        assert receipt.unread_from == member.unread_from

    def target(self, chat: ChatId, pick: int) -> int:
        """A message of the chat; now and then any place in its log, or one outside it."""
        room = self.rooms[chat]
        messages = [sequence for sequence, _ in room.messages()]
        if pick % 8 == 0 or not messages:
            return pick // 8 % (len(room.log) + 3)
        return messages[-1 - pick // 8 % len(messages)]

    def same(self, expect: Callable[[], A], act: Coroutine[Any, Any, B]) -> tuple[A, B] | None:
        """Do it in both worlds. Both results, or None if both refused for the same reason."""
        try:
            expected = expect()
        except Refusal as refusal:
            with pytest.raises(Refusal) as raised:
                self.product.run(act)
            assert raised.type is type(refusal)
            self.happened[raised.typename] += 1
            return None
        return expected, self.product.run(act)

    @initialize(target=chats)
    def begin(self) -> ChatId:
        """With something in it, for runs that happen to have few sends."""
        chat = self._create("group", "Red", USERS[0], USERS[1:3])
        for user in USERS[:2]:
            self.rooms[chat].send(user, "a", canary("one"), None, self.now, self.kept_ms)
            self.product.run(self.product.send(user, chat, "a", canary("one"), None))
        return chat

    @precondition(lambda self: len(self.rooms) < ROOMS_MAX)
    @rule(target=chats, name=names, creator=users, others=st.lists(users, max_size=3))
    def create_group(self, name: str, creator: UserKey, others: list[UserKey]) -> Any:
        if not any((other, creator) in self.blocks for other in others):
            return self._create("group", name, creator, others)
        with pytest.raises(UserNotAddable):
            self.product.run(self.product.verbs.create(creator, "group", name, others, None))
        return multiple()

    @precondition(lambda self: len(self.rooms) < ROOMS_MAX)
    @rule(target=chats, pair=st.lists(users, min_size=2, max_size=2, unique=True))
    def create_direct(self, pair: list[UserKey]) -> ChatId:
        """The first time it is made, afterwards found, whoever of the two asks."""
        known = self.pairs.get(frozenset(pair))
        if known is None:
            known = self.pairs[frozenset(pair)] = self._create("direct", None, pair[0], pair[1:])
        again = self.product.verbs.create(pair[1], "direct", None, pair[:1], None)
        created = self.product.run(again)
        assert (created.chat_id, created.is_new) == (known, False)
        return known

    def _create(
        self, kind: ChatType, name: str | None, creator: UserKey, others: list[UserKey]
    ) -> ChatId:
        create = self.product.verbs.create(creator, kind, name, others, None)
        created = self.product.run(create)
        assert created.is_new
        people = list(dict.fromkeys([creator, *others]))
        room = self.rooms[created.chat_id] = Room(kind, name, people, self.now, self.tenancy)
        self.touched.add(created.chat_id)
        for user, blocked in self.blocks if kind == "direct" else ():
            if {user, blocked} == set(people):
                self.shown[created.chat_id, user] = (0, 0)
                room.members[user].hidden_number = -1 if user == creator else 0
        return created.chat_id
