# SPDX-License-Identifier: Apache-2.0
"""Rules for what is done to messages: send and send again, edit, redact, react."""

from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import rule
from hypothesis.strategies import SearchStrategy

from tests.model.ground import Ground, picks, several
from tests.model.lines import Options
from tests.model.views import entry_of_product, entry_of_reference
from tests.support.canary import canary
from tidings.model.ids import ChatId, UserKey, tenant_itself, tenant_of
from tidings.model.scheduled import SENT_AS


class Send(NamedTuple):
    """A message."""

    actor: int
    cmid: str | None
    """None: one that was never used."""
    text: str
    ttl_seconds: int | None
    answers: int | None = None
    """Which message it answers, if any."""
    mentions: tuple[str, ...] = ()
    poster: str = "user"
    """Or `tenant`, in the user's name, or `itself`, the tenant in its own."""


class Pin(NamedTuple):
    actor: int
    target: int
    away: bool


class Again(NamedTuple):
    """A send repeated."""

    key: int
    text: str | None
    """Other content under the same id; None: the same."""


class Edit(NamedTuple):
    """By the sender of the message, as a rule; of others it is mostly refused."""

    actor: int
    target: int
    text: str
    is_by_sender: bool


class Redact(NamedTuple):
    actor: int
    target: int


class React(NamedTuple):
    actor: int
    target: int
    emoji: str
    away: bool


ONE: Final = canary("one")
TWO: Final = canary("two")
LONGEST: Final = "🎉" * 1_024
texts: SearchStrategy[str] = st.sampled_from([ONE, TWO, LONGEST])
plain = {"answers": st.none(), "mentions": st.just(()), "poster": st.just("user")}
new = st.builds(Send, picks, st.none(), texts, st.sampled_from([None, 1, 2, 10]), **plain)
# Of few ids and few contents: often the same again, or other content under the same id.
perhaps_again = st.builds(
    Send, picks, st.sampled_from("ab"), st.sampled_from([ONE, TWO]), st.sampled_from([None, 1]),
    **plain,
)  # fmt: skip
with_options = st.builds(
    Send, picks, st.none() | st.sampled_from("ab"), texts, st.sampled_from([None, 2]),
    st.none() | picks, st.sampled_from([(), ("*",), ("ann",), ("bob", "cat"), ("dan",)]),
    st.sampled_from(["user", "user", "tenant", "itself"]),
)  # fmt: skip
pins = st.builds(Pin, picks, picks, st.sampled_from([False, False, True]))
edits = st.builds(Edit, picks, picks, texts, st.sampled_from([True, True, False]))
redactions = st.builds(Redact, picks, picks)
reactions = st.builds(React, picks, picks, st.sampled_from(["👍", "❤️", ":party:"]), st.booleans())
anything = st.one_of(new, perhaps_again, with_options, edits, redactions, reactions, pins)


class MessageRules(Ground):
    """What users do to messages."""

    @rule(chat=Ground.chats, doings=several(anything))
    def write(self, chat: ChatId, doings: list[Send | Edit | Redact | React | Pin]) -> None:
        self.room(chat)
        for doing in doings:
            user = self.who(chat, doing.actor)
            match doing:
                case Send():
                    self._send(chat, user, doing)
                case Pin(_, pick, away):
                    self._pin(chat, user, self.target(chat, pick), away)
                case Edit():
                    self._edit(chat, user, doing)
                case Redact(_, pick):
                    self._redact(chat, user, self.target(chat, pick))
                case React(_, pick, emoji, away):
                    self._react(chat, user, self.target(chat, pick), emoji, away)

    @rule(chat=Ground.chats, sends=several(new))
    def write_at_once(self, chat: ChatId, sends: list[Send]) -> None:
        """Where it is cheaper, these are stored together."""
        room = self.room(chat)
        members = [(self.who(chat, one.actor), one) for one in sends]
        may_write = not room.frozen and not room.slow_mode_seconds
        members = [
            (user, one)
            for user, one in members
            if may_write and user in room.members and not self.tenancy.is_banned(user, self.now)
        ]
        named = [(user, f"fresh-{next(self.fresh)}", one.text) for user, one in members]
        sent = self.product.run(self.product.send_all(chat, named))
        # Whose key has to be read first comes later: the order of those sent at once is open.
        in_order = sorted(zip(named, sent, strict=True), key=lambda pair: pair[1][0].sequence)
        for (user, cmid, text), (entry, _) in in_order:
            expected = room.send(user, cmid, text, None, self.now, self.kept_ms)
            assert expected == (entry.sequence, False)

    @rule(chat=Ground.chats, doings=several(reactions))
    def react(self, chat: ChatId, doings: list[React]) -> None:
        """To the same message, or there would seldom be anything to take back."""
        self.room(chat)
        for actor, pick, emoji, away in doings:
            self._react(chat, self.who(chat, actor), self.target(chat, 1 + pick % 2), emoji, away)

    @rule(chat=Ground.chats, pick=picks, doings=several(pins))
    def pin(self, chat: ChatId, pick: int, doings: list[Pin]) -> None:
        """The same message, by those who may, or there would seldom be anything to unpin."""
        room, target = self.room(chat), self.target(chat, pick)
        rulers = [user for user, member in room.members.items() if member.role != "member"]
        for actor, _, away in doings:
            user = UserKey(rulers[0]) if rulers else self.who(chat, actor)
            self._pin(chat, user, target, away)

    @rule(chat=Ground.chats, again=several(st.builds(Again, picks, texts | st.none())))
    def repeat(self, chat: ChatId, again: list[Again]) -> None:
        """By its sender, a member or not any more."""
        for pick, text in again:
            if known := self._known(chat, pick):
                user, send, options, _ = known
                self._send(chat, user, send._replace(text=text or send.text), options)

    @rule(chat=Ground.chats, pick=picks, early=st.sampled_from([0, 1]))
    def repeat_when_its_key_expires(self, chat: ChatId, pick: int, early: int) -> None:
        """From that very millisecond on it is a new message."""
        if known := self._known(chat, pick):
            user, send, options, until = known
            if until - early > self.now:
                self.move_clock(until - early)
                self._send(chat, user, send, options)

    def _known(self, chat: ChatId, pick: int) -> tuple[UserKey, Send, Options, int] | None:
        """An earlier send: by whom, what, its options, and until when its key counts."""
        keys = [
            (key, sent)
            for key, sent in self.room(chat).keys.items()
            if not key[1].startswith(SENT_AS)
        ]
        if not keys:
            return None
        (user, cmid), ((text, ttl, options), _, until) = keys[pick % len(keys)]
        return UserKey(user), Send(0, cmid, text, ttl), options, until

    def _send(
        self, chat: ChatId, user: UserKey, doing: Send, options: Options | None = None
    ) -> None:
        """With its own options, or with those of the earlier send that it repeats."""
        room = self.rooms[chat]
        if options is None:
            target = None if doing.answers is None else self.target(chat, doing.answers)
            options = Options(target, doing.mentions, doing.poster != "user")
        if doing.poster == "itself":
            user = tenant_itself(tenant_of(user))
        cmid = doing.cmid or f"fresh-{next(self.fresh)}"
        both = self.same(
            lambda: room.send(
                user, cmid, doing.text, doing.ttl_seconds, self.now, self.kept_ms, options
            ),
            self.product.send(user, chat, cmid, doing.text, doing.ttl_seconds, options),
        )
        if both is None:
            return
        (sequence, is_repeat), (entry, is_replay) = both
        assert (entry.sequence, is_replay) == (sequence, is_repeat)
        assert entry.message_id == f"{chat}.{sequence}"
        self.happened["repeat"] += is_repeat
        shown, expected = (
            entry_of_product(entry),
            entry_of_reference(room, sequence, user, self.now),
        )
        del shown["mine"], expected["mine"]  # an answer to a send does not say
        assert shown == expected

    def _edit(self, chat: ChatId, user: UserKey, doing: Edit) -> None:
        room, target = self.rooms[chat], self.target(chat, doing.target)
        if doing.is_by_sender and 1 <= target <= len(room.log):
            user = UserKey(room.log[target - 1].sender)
        self.same(
            lambda: room.edit(user, target, doing.text, self.now),
            self.product.verbs.edit(user, chat, target, doing.text),
        )

    def _pin(self, chat: ChatId, user: UserKey, target: int, away: bool) -> None:
        room = self.rooms[chat]
        self.same(
            lambda: room.pin(user, target, self.now, away=away),
            self.product.verbs.pin(user, chat, target, away=away),
        )

    def _redact(self, chat: ChatId, user: UserKey, target: int) -> None:
        room = self.rooms[chat]
        self.same(
            lambda: room.redact(user, target, self.now),
            self.product.verbs.redact(user, chat, target),
        )

    def _react(self, chat: ChatId, user: UserKey, target: int, emoji: str, away: bool) -> None:
        room = self.rooms[chat]
        self.same(
            lambda: room.react(user, target, emoji, self.now, away=away),
            self.product.verbs.react(user, chat, target, emoji, away=away),
        )
