# SPDX-License-Identifier: Apache-2.0
"""Rules for reading, and what has to hold after every step."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from hypothesis.strategies import SearchStrategy

from tests.model.ground import USERS, Ground, picks, users
from tests.model.product import chat_calls
from tests.model.reference import Room
from tests.model.views import (
    View,
    entry_of_product,
    entry_of_reference,
    row_of_product,
    row_of_reference,
)
from tidings.actions.chat.unread import TOTAL_ENTRIES_MAX
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import MENTIONS_MS
from tidings.model.refusals import ChatNotFound

OUTSIDER_CALLS: Final = 3
"""How many verbs an outsider tries after each step; in turn, all of them."""

limits: SearchStrategy[int] = st.sampled_from([1, 2, 3, 7, 100])


class ReadingRules(Ground):
    """What users look at."""

    compares_all_every = 1
    """After so many steps, and at the end, all chats are compared in every respect. In between, the
    chats that may have changed are, in one respect after the other."""
    steps = 0

    @rule(chat=Ground.chats, user=users, only=st.booleans(), up=st.booleans(), start=picks,
          limit=limits)  # fmt: skip
    def page(
        self, chat: ChatId, user: UserKey, only: bool, up: bool, start: int, limit: int
    ) -> None:
        """From anywhere to the end, a page at a time."""
        room = self.rooms[chat]
        start %= len(room.log) + 3
        both = self.same(
            lambda: self._expected(room, user, only=only, up=up, start=start),
            self.product.log(user, chat, up=up, only_messages=only, start=start, limit=limit),
        )
        if both is not None:
            expected, found = both
            assert [entry_of_product(entry) for entry in found] == expected

    def _expected(
        self, room: Room, user: UserKey, *, only: bool, up: bool, start: int
    ) -> list[View]:
        room.member(user)
        places = (
            range(start + 1, len(room.log) + 1)
            if up
            else range(min(start - 1, len(room.log)), 0, -1)
        )
        views = [entry_of_reference(room, place, user, self.now) for place in places]
        if not only:
            return views
        return [view for view in views if view["kind"] == "message" and view["gone"] != "expired"]

    @rule(chat=Ground.chats, user=users, pick=picks)
    def one_message(self, chat: ChatId, user: UserKey, pick: int) -> None:
        room, target = self.rooms[chat], self.target(chat, pick)

        def expect() -> View:
            room.member(user)
            room.message(target)
            return entry_of_reference(room, target, user, self.now)

        both = self.same(expect, self.product.verbs.read.one(user, chat, target))
        assert both is None or [entry_of_product(e) for e in both[1].entries] == [both[0]]

    @rule(chat=Ground.chats, user=users, pick=picks)
    def who_reacted(self, chat: ChatId, user: UserKey, pick: int) -> None:
        room, target = self.rooms[chat], self.target(chat, pick)

        def expect() -> list[tuple[str, str]]:
            room.member(user)
            return sorted(room.message(target).reactions)

        both = self.same(expect, self.product.verbs.reactions(user, chat, target))
        assert both is None or sorted((sign, who) for sign, who, _ in both[1]) == both[0]

    @rule(chat=Ground.chats, user=users, pick=picks)
    def replies_and_pins(self, chat: ChatId, user: UserKey, pick: int) -> None:
        room, target = self.rooms[chat], self.target(chat, pick)

        def expect() -> list[int]:
            room.member(user)
            room.message(target)
            lines = [(place, room.log[place - 1]) for place in room.replies(target)]
            return [place for place, line in lines if line.gone(self.now) != "expired"]

        read = self.product.verbs.read
        both = self.same(expect, read.replies(user, chat, target, after=0, limit=100))
        assert both is None or [entry.sequence for entry in both[1].entries] == both[0]
        if user in room.members:
            page, _ = self.product.run(read.pins(user, chat))
            assert [entry.sequence for entry in page.entries] == room.pins()

    @rule(user=users)
    def mentions(self, user: UserKey) -> None:
        """By name, by others, in the chats of the user."""
        name = user.partition(":")[2]
        expected = {
            (chat, sequence)
            for chat, room in self.rooms.items()
            if user in room.members
            for sequence, line in room.messages()
            if name in line.mentions
            and (user, line.sender) not in self.blocks
            and line.sender != user
            and line.gone(self.now) is None
            and line.at > self.now - MENTIONS_MS
        }
        found, cursor = self.product.run(self.product.verbs.mentions(user, None, 100))
        assert cursor is None
        assert {(entry.chat_id, entry.sequence) for entry in found} == expected
        assert [entry.created_at for entry in found] == sorted(
            (entry.created_at for entry in found), reverse=True
        )

    @rule(user=users, limit=st.integers(1, 3))
    def chat_list(self, user: UserKey, limit: int) -> None:
        self.product.run(self.product.deliver(self.rooms))
        for chat, room in self.rooms.items():
            if user in room.members:
                row = self.product.run(self.product.verbs.get(user, chat))
                self.note_ended_mark(room, user, row.receipt)
        expected = [
            row_of_reference(chat, room, user, self.now)
            for chat, room in self.rooms.items()
            if user in room.members
        ]
        expected.sort(key=lambda view: (view["active_at"], view["chat"]), reverse=True)
        found, cursor = [], None
        while True:
            rows, cursor = self.product.run(self.product.verbs.list(user, cursor, limit))
            found += [row_of_product(row) for row in rows]
            if cursor is None:
                break
            assert len(rows) == limit
        assert found == expected
        self._compare_total(user, expected)

    def _compare_total(self, user: UserKey, rows: list[View]) -> None:
        """All chats together, unless one is too long to be counted."""
        total = self.product.run(self.product.verbs.count_total(user))
        if not total.exact:
            assert any(len(room.log) > TOTAL_ENTRIES_MAX for room in self.rooms.values())
            return
        counts = [row["unread"][0] for row in rows]
        assert (total.chats, total.messages) == (sum(map(bool, counts)), sum(counts))
        assert total.mentions == sum(row["mentions"] for row in rows)
        self.happened["several unread chats"] += total.chats > 1

    # After every step.

    @invariant()
    def worlds_agree(self) -> None:
        turn, respects = self.steps % self.compares_all_every, self._respects()
        self.steps += 1
        if turn:
            self._compare_touched(respects[turn])
        elif self.compares_all_every > 1:
            self._compare_all()
        else:
            self._compare_touched(*respects)

    def teardown(self) -> None:
        """Compare all chats in every respect, unless that was done after the last step."""
        try:
            if (self.steps - 1) % self.compares_all_every:
                self._compare_all()
        finally:
            super().teardown()

    def _compare_all(self) -> None:
        self.touched.update(self.rooms)
        self._compare_touched(*self._respects())

    def _compare_touched(self, *respects: Callable[[ChatId, Room], None]) -> None:
        for chat in sorted(self.touched):
            for compare in respects:
                compare(chat, self.rooms[chat])
        self.touched.clear()

    def _respects(self) -> tuple[Callable[[ChatId, Room], None], ...]:
        return (
            self._compare_entries,
            self._compare_members,
            self._compare_receipts,
            self._compare_blocked,
            self._keep_outsiders_out,
        )

    def _compare_entries(self, chat: ChatId, room: Room) -> None:
        if room.members:
            self._compare_log(chat, room)
            self._compare_reactions(chat, room)

    def _compare_log(self, chat: ChatId, room: Room) -> None:
        """Sequences 1..head without a hole, and all that stands there."""
        readers = sorted(room.members)
        reader = UserKey(readers[self.steps % len(readers)])
        log = self.product.run(
            self.product.log(reader, chat, up=True, only_messages=False, start=0, limit=100)
        )
        expected = [
            entry_of_reference(room, s, reader, self.now) for s in range(1, len(room.log) + 1)
        ]
        assert [entry_of_product(entry) for entry in log] == expected

    def _compare_reactions(self, chat: ChatId, room: Room) -> None:
        """Who reacted to one of the messages that ever had a reaction; each has its turn."""
        targets = sorted(
            {line.target for line in room.log if line.kind == "reacted" and line.target}
        )
        if targets:
            target = targets[self.steps % len(targets)]
            reader = UserKey(min(room.members))
            found = self.product.run(self.product.verbs.reactions(reader, chat, target))
            given = [(emoji, user) for emoji, user, _ in found]
            assert sorted(given) == sorted(room.message(target).reactions)

    def _compare_members(self, chat: ChatId, room: Room) -> None:
        """Members and roles, an owner among them; and for each of them the row, unread included."""
        if not room.members:
            return
        for user in room.members:
            row = self.product.run(self.product.verbs.get(UserKey(user), chat))
            self.note_ended_mark(room, user, row.receipt)
            assert row_of_product(row) == row_of_reference(chat, room, user, self.now)
        shown = self.product.run(self.product.verbs.members(UserKey(user), chat))
        members = {name: one.member for name, one in shown.items()}
        receipts = self.product.run(self.product.receipts(UserKey(user), chat))
        assert shown.keys() == receipts.keys()
        assert all(one.receipt.receipt.read <= receipts[name].read for name, one in shown.items())
        assert {(name, m.role, m.joined, m.joined_at) for name, m in members.items()} == {
            (name, m.role, m.joined, m.joined_at) for name, m in room.members.items()
        }
        assert room.kind == "direct" or "owner" in {m.role for m in members.values()}

    def _compare_receipts(self, chat: ChatId, room: Room) -> None:
        """Forwards only, and no further than what was marked or is one's own."""
        reader = next(filter(room.sees_receipts, sorted(room.members)), None)
        if reader is None:
            return
        receipts = self.product.run(self.product.receipts(UserKey(reader), chat))
        assert receipts.keys() == room.members.keys()
        for user, member in room.members.items():
            receipt = receipts[user]
            assert member.read <= receipt.read <= room.read_at_most(user)
            assert receipt.read_number == room.number(receipt.read)
            assert receipt.delivered == max(member.delivered, receipt.read)
            self.happened["read mark moved by itself"] += receipt.read > member.read
            member.read, member.delivered = receipt.read, receipt.delivered
        self._compare_times(chat, room)

    def _compare_times(self, chat: ChatId, room: Room) -> None:
        """Who read a message, and no time earlier than the first mark that may have reached it."""
        messages = [sequence for sequence, _ in room.messages()]
        reader = next(filter(room.sees_receipts, sorted(room.members)), None)
        if not messages or reader is None:
            return
        sequence = messages[self.steps % len(messages)]
        sender = room.message(sequence).sender
        found = self.product.run(
            self.product.verbs.message_receipts(UserKey(reader), chat, sequence, None, 10)
        )
        concerned = {
            user: member
            for user, member in room.members.items()
            if member.joined < sequence and user != sender
        }
        assert {one.receipt.user for one in found.page} == concerned.keys()
        assert found.read == sum(member.read >= sequence for member in concerned.values())
        for one in found.page:
            times = [at for read, at in concerned[one.receipt.user].reads if read >= sequence]
            read_at = one.read_at(sequence)
            assert read_at is None or read_at >= times[0] // 1_000 * 1_000
            assert read_at is not None or not times or len(times) > 1
            self.happened["time of reading"] += read_at is not None

    def _compare_blocked(self, chat: ChatId, room: Room) -> None:
        """In a direct chat the blocked see nothing that moved since."""
        for user, blocked in self.blocks if room.kind == "direct" else ():
            if {user, blocked} == room.members.keys():
                receipt = self.product.run(self.product.receipts(UserKey(blocked), chat))[user]
                delivered, read = self.shown[chat, user]
                assert receipt.delivered <= delivered
                assert receipt.read <= read

    def _keep_outsiders_out(self, chat: ChatId, room: Room) -> None:
        outsiders = [user for user in USERS if user not in room.members]
        if not outsiders:
            return
        outsider = outsiders[self.steps % len(outsiders)]
        target = next((sequence for sequence, _ in room.messages()), 1)
        calls = chat_calls(self.product.verbs, outsider, chat, target, USERS[0])
        chosen = [(OUTSIDER_CALLS * self.steps + n) % len(calls) for n in range(OUTSIDER_CALLS)]
        for index in chosen:
            with pytest.raises(ChatNotFound):
                self.product.run(list(calls.values())[index]())
        rows, _ = self.product.run(self.product.verbs.list(outsider, None, 10))
        assert chat not in {row.chat_id for row in rows}
