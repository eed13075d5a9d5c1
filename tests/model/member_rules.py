# SPDX-License-Identifier: Apache-2.0
"""Rules for who is in a chat, and how far everyone has read."""

from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import rule
from hypothesis.strategies import SearchStrategy

from tests.model.ground import NOBODY, USERS, Ground, names, picks, several, users
from tidings.actions.identity.caller import TenantCaller
from tidings.assembly.system import back_off
from tidings.delivery.rounds import DeletionRunner
from tidings.model.entries import Deletion
from tidings.model.ids import ChatId, UserKey, tenant_itself, tenant_of
from tidings.model.refusals import UserNotFound
from tidings.model.roles import Role

DELETED_ONE_IN: Final = 4


class Put(NamedTuple):
    """Add somebody, or give a member another role."""

    actor: int
    user: UserKey
    role: Role | None


class Remove(NamedTuple):
    """Remove somebody, or leave."""

    actor: int
    user: UserKey


class Rename(NamedTuple):
    actor: int
    name: str


class Moderate(NamedTuple):
    """The tenant freezes the chat, slows it down, or ends both."""

    actor: int
    frozen: bool
    slow_mode_seconds: int


class Mark(NamedTuple):
    """Anywhere from nothing to one beyond the head."""

    actor: int
    delivered: int
    read: int


class Mute(NamedTuple):
    actor: int
    until: int | None


class MarkUnread(NamedTuple):
    """From anywhere, or no longer."""

    actor: int
    first: int | None


class Hide(NamedTuple):
    actor: int
    is_hidden: bool


class Delete(NamedTuple):
    """Delete the whole chat; seldom, since then there is nothing more to do in it."""

    actor: int


roles: SearchStrategy[Role | None] = st.sampled_from((None, "member", "admin", "owner"))
puts = st.builds(Put, picks, st.sampled_from([*USERS, *USERS, NOBODY]), roles)
removals = st.builds(Remove, picks, users)
renamings = st.builds(Rename, picks, names)
deletions = st.builds(Delete, picks)
moderations = st.builds(
    Moderate, picks, st.sampled_from([False, False, True]), st.sampled_from([0, 0, 1])
)
marks = st.builds(Mark, picks, picks, picks)
mutes = st.builds(Mute, picks, st.sampled_from([None, 5, 2_000_000_000_000]))
unread_marks = st.builds(MarkUnread, picks, picks | st.none())
hidings = st.builds(Hide, picks, st.booleans())


class MemberRules(Ground):
    """What users do to a chat, apart from writing."""

    @rule(
        chat=Ground.chats,
        doings=several(st.one_of(puts, puts, removals, renamings, deletions, moderations)),
    )
    def change(self, chat: ChatId, doings: list[Put | Remove | Rename | Delete | Moderate]) -> None:
        self.room(chat)
        for doing in doings:
            actor = self._owner(chat) if doing.actor % 2 else self.who(chat, doing.actor)
            match doing:
                case Put(_, user, role):
                    self._put(chat, actor, user, role)
                case Remove(_, user):
                    self._remove(chat, actor, user)
                case Rename(_, name):
                    self._rename(chat, actor, name)
                case Moderate(_, frozen, slow_mode_seconds):
                    self._moderate(chat, frozen, slow_mode_seconds)
                case Delete(pick) if pick % DELETED_ONE_IN == 1:
                    self._delete(chat, actor)
                case Delete():
                    pass

    def _owner(self, chat: ChatId) -> UserKey:
        """Of the members most may do nothing here: half of the time it is somebody who may."""
        members = self.rooms[chat].members
        return UserKey(next((u for u, m in members.items() if m.role == "owner"), USERS[0]))

    def _put(self, chat: ChatId, actor: UserKey, user: UserKey, role: Role | None) -> None:
        room = self.rooms[chat]

        def expect() -> bool:
            room.member(actor)
            if user == NOBODY:
                raise UserNotFound
            return room.put_member(actor, user, role, self.now)

        both = self.same(expect, self.product.verbs.put_member(actor, chat, user, role))
        assert both is None or both[0] == both[1]

    def _remove(self, chat: ChatId, actor: UserKey, user: UserKey) -> None:
        room = self.rooms[chat]
        length = len(room.log)
        self.same(
            lambda: room.remove_member(actor, user, self.now),
            self.product.verbs.remove_member(actor, chat, user),
        )
        self.happened["heir"] += len(room.log) == length + 2

    def _rename(self, chat: ChatId, actor: UserKey, name: str) -> None:
        room = self.rooms[chat]
        self.same(
            lambda: room.rename(actor, name, self.now),
            self.product.verbs.rename(actor, chat, name),
        )

    def _moderate(self, chat: ChatId, frozen: bool, slow_mode_seconds: int) -> None:
        room, tenant = self.rooms[chat], tenant_of(USERS[0])
        act = self.product.verbs.change_settings(
            TenantCaller(tenant, "key"),
            tenant,
            chat,
            frozen=frozen,
            slow_mode_seconds=slow_mode_seconds,
        )
        itself = tenant_itself(tenant)
        self.same(lambda: room.change_settings(itself, frozen, slow_mode_seconds, self.now), act)

    def _delete(self, chat: ChatId, actor: UserKey) -> None:
        """All at once: what is to be seen while it goes on is looked at elsewhere."""
        room = self.rooms[chat]
        delete = self.product.verbs.delete.as_owner
        both = self.same(lambda: room.delete(actor, self.now), delete(actor, chat))
        if both is not None:
            assert both[1].entries == len(room.log)
            again = self.product.run(self._deleted(actor, chat))
            assert (again.job_id, again.phase) == (both[1].job_id, "done")

    async def _deleted(self, actor: UserKey, chat: ChatId) -> Deletion:
        core = self.product.deployment.core
        runner = DeletionRunner(
            deletions=core.store.deletions,
            bus=core.bus,
            clock=core.clock,
            holder="model",
            delivery=None,
            back_off=back_off,
        )
        while await runner.round():
            pass
        return await self.product.verbs.delete.as_owner(actor, chat)

    @rule(user=users, other=users)
    def block(self, user: UserKey, other: UserKey) -> None:
        """Block somebody, or end it."""
        if user == other:
            return
        verb = self.product.verbs.block
        if (user, other) in self.blocks:
            self.product.run(verb.end(user, other))
            self.blocks.remove((user, other))
        else:
            self.product.run(verb(user, other))
            self.blocks.add((user, other))
            self.happened["blocked"] += 1
            if chat := self.pairs.get(frozenset((user, other))):
                receipt = self.product.run(self.product.receipts(user, chat))[user]
                self.shown[chat, user] = (receipt.delivered, receipt.read)
        self.touched.update(self.rooms)

    @rule(chat=Ground.chats, doings=several(st.one_of(marks, marks, mutes, unread_marks, hidings)))
    def mark_and_mute(self, chat: ChatId, doings: list[Mark | Mute | MarkUnread | Hide]) -> None:
        self.room(chat)
        for doing in doings:
            user = self.who(chat, doing.actor)
            match doing:
                case Mark(_, delivered, read):
                    self._mark(chat, user, delivered, read)
                case Mute(_, until):
                    self._mute(chat, user, until)
                case MarkUnread(_, first):
                    self._mark_unread(chat, user, first)
                case Hide(_, is_hidden):
                    self._hide(chat, user, is_hidden)

    def _mark(self, chat: ChatId, user: UserKey, delivered: int, read: int) -> None:
        room = self.rooms[chat]
        places = len(room.log) + 2
        delivered, read = delivered % places, read % places
        both = self.same(
            lambda: room.mark(user, delivered, read, self.now),
            self.product.verbs.mark(user, chat, delivered, read),
        )
        if both is not None:
            receipt, unread = both[1]
            assert receipt.read >= read
            assert receipt.delivered >= max(delivered, receipt.read)
            self.note_ended_mark(room, user, receipt)
            assert (unread.count, unread.exact) == (room.unread(user, receipt.read, self.now), True)

    def _mark_unread(self, chat: ChatId, user: UserKey, pick: int | None) -> None:
        room = self.rooms[chat]
        first = None if pick is None else pick % (len(room.log) + 2)
        self.product.run(self.product.flush(user, chat))
        both = self.same(
            lambda: room.mark_unread(user, first),
            self.product.verbs.mark_unread(user, chat, first),
        )
        if both is not None:
            receipt, unread = both[1]
            assert receipt.unread_from == (first or 0)
            assert (unread.count, unread.exact) == (room.unread(user, receipt.read, self.now), True)
            self.happened["marked unread"] += first is not None

    def _hide(self, chat: ChatId, user: UserKey, is_hidden: bool) -> None:
        room = self.rooms[chat]
        self.same(
            lambda: room.hide(user, is_hidden),
            self.product.verbs.hide(user, chat, is_hidden=is_hidden),
        )

    def _mute(self, chat: ChatId, user: UserKey, until: int | None) -> None:
        room = self.rooms[chat]
        self.same(lambda: room.mute(user, until), self.product.verbs.mute(user, chat, until))
