# SPDX-License-Identifier: Apache-2.0
"""Chat as it should be, in plain lists and dictionaries: slow, small, and obviously right.

It shares with the product only the catalogue of refusals. One difference is meant: the product
moves a sender's read mark over its own messages a little later, so of that mark the reference
knows where it may stand, and where it has to be in the end.
"""

from collections.abc import Iterator, Sequence

from tests.model.lines import NO_OPTIONS, WEEK_MS, Line, Membership, Options
from tests.model.tenancy import Tenancy
from tidings.model.file_refusals import AttachmentUsed
from tidings.model.refusals import (
    ChatFrozen,
    ChatNotFound,
    DirectChatFixed,
    Forbidden,
    Invalid,
    LastOwner,
    MemberNotFound,
    MentionUnknown,
    MessageGone,
    MessageNotFound,
    ReceiptBeyondHead,
    ReplyUnknown,
    SendConflict,
    SlowMode,
    UserNotAddable,
)


class Room:
    """One chat."""

    def __init__(
        self,
        kind: str,
        name: str | None,
        users: Sequence[str],
        now: int,
        tenancy: Tenancy,
    ) -> None:
        """The first of the users is the creator."""
        self.kind = kind
        self.tenancy = tenancy
        self.blocks = tenancy.blocks
        self.name = name
        self.frozen = False
        self.slow_mode_seconds = 0
        self.log: list[Line] = []
        self.members: dict[str, Membership] = {}
        self.keys: dict[tuple[str, str], tuple[tuple[str, int | None, Options], int, int]] = {}
        """Of each sender and client_message_id: what, the sequence, and until when."""
        first = "owner" if kind == "group" else "member"
        people = [(user, first if index == 0 else "member") for index, user in enumerate(users)]
        self._append(Line("created", users[0], now, people=people, name=name))
        self._admit(people)

    # Reading.

    def member(self, user: str) -> Membership:
        if user not in self.members:
            raise ChatNotFound
        return self.members[user]

    def message(self, sequence: int) -> Line:
        if not 1 <= sequence <= len(self.log) or self.log[sequence - 1].kind != "message":
            raise MessageNotFound
        return self.log[sequence - 1]

    def messages(self) -> Iterator[tuple[int, Line]]:
        """All messages with their sequences."""
        return ((s, line) for s, line in enumerate(self.log, 1) if line.kind == "message")

    def number(self, sequence: int) -> int:
        """How many messages there are up to this place."""
        return sum(line.kind == "message" for line in self.log[:sequence])

    def unread(self, user: str, read: int, now: int) -> int:
        """How many messages of others stand after the mark and can be read."""
        first = self.members[user].unread_from
        after = min(read, first - 1) if first else read
        return sum(
            sequence > after and line.sender != user and line.gone(now) is None
            for sequence, line in self.messages()
            if (user, line.sender) not in self.blocks
        )

    def unread_mentions(self, user: str, read: int, now: int) -> int:
        """How many of those mention the user."""
        first = self.members[user].unread_from
        after = min(read, first - 1) if first else read
        return sum(
            sequence > after and line.sender != user and line.gone(now) is None
            for sequence, line in self.messages()
            if line.mentions_user(user) and (user, line.sender) not in self.blocks
        )

    def replies(self, sequence: int) -> list[int]:
        """The messages that answer a message."""
        return [place for place, line in self.messages() if line.reply_to == sequence]

    def pins(self) -> list[int]:
        """The pinned messages, as they were pinned."""
        pinned = [(line.pinned, place) for place, line in self.messages() if line.pinned]
        return [place for _, place in sorted(pinned)]

    def active_at(self) -> int:
        """When the chat last moved in the chat list."""
        kinds = ("created", "message", "added", "removed", "role")
        return next(line.at for line in reversed(self.log) if line.kind in kinds)

    def read_at_most(self, user: str) -> int:
        """How far the read mark may have moved by itself: over one's own messages, no further."""
        mark = max(self.members[user].due, self.members[user].read)
        for sequence, line in self.messages():
            if sequence > mark:
                if line.sender != user:
                    break
                mark = sequence
        return mark

    # Messages.

    def send(
        self,
        user: str,
        cmid: str,
        content: str,
        ttl_seconds: int | None,
        now: int,
        kept_ms: int | None,
        options: Options = NO_OPTIONS,
    ) -> tuple[int, bool]:
        """The message's sequence, and whether it is a repeat; content is kept for `kept_ms`."""
        what = (content, ttl_seconds, options)
        known, sequence, until = self.keys.get((user, cmid), (None, 0, 0))
        is_known = until > now
        if is_known and known == what:
            return sequence, True
        self._check_sender(user, is_by_tenant=options.is_by_tenant)
        if not options.is_by_tenant:
            self._check_settings(user, now)
        self._check(options, now)
        if not options.is_by_tenant:
            self.tenancy.check_ban(user, now)
        try:
            self.tenancy.shelf.check(user, options.files, cmid, now)
        except AttachmentUsed:
            if not is_known:
                raise
        if is_known:
            raise SendConflict
        lives = [kept_ms, None if ttl_seconds is None else 1_000 * ttl_seconds]
        expires_at = min((now + ms for ms in lives if ms is not None), default=None)
        sequence = self._append(
            Line(
                "message", user, now, cmid=cmid, content=content, expires_at=expires_at,
                reply_to=options.reply_to, mentions=list(options.mentions),
                is_by_tenant=options.is_by_tenant, files=options.files,
            )
        )  # fmt: skip
        self.tenancy.shelf.take(options.files, self, sequence)
        self.keys[user, cmid] = (what, sequence, now + WEEK_MS)
        if user not in self.members:
            return sequence, False  # the tenant itself
        member = self.members[user]
        member.mark_may_end = member.mark_must_end = True
        member.due = max(member.due, member.read)
        if self.number(member.due) == self.number(sequence) - 1:
            member.due = sequence
        return sequence, False

    def _check_sender(self, user: str, *, is_by_tenant: bool) -> None:
        if not is_by_tenant or not self.members:
            self.member(user)
        elif user not in self.members and not user.endswith(":~tenant"):
            raise MemberNotFound

    def _check(self, options: Options, now: int) -> None:
        target, mentions = options.reply_to, options.mentions
        if target is not None:
            is_there = 1 <= target <= len(self.log) and self.log[target - 1].kind == "message"
            if not is_there or self.log[target - 1].gone(now):
                raise ReplyUnknown
        names = {user.partition(":")[2] for user in self.members}
        if mentions != ("*",) and not names.issuperset(mentions):
            raise MentionUnknown

    def pin(self, user: str, sequence: int, now: int, *, away: bool) -> None:
        role = self.member(user).role
        message = self.message(sequence)
        if role == "member" and self.kind == "group":
            raise Forbidden
        if self.frozen:
            raise ChatFrozen
        if bool(message.pinned) != away:
            return
        if message.gone(now) and not away:
            raise MessageGone
        kind = "unpinned" if away else "pinned"
        place = self._append(Line(kind, user, now, target=sequence))
        message.pinned = 0 if away else place

    def edit(self, user: str, sequence: int, content: str, now: int) -> None:
        self.member(user)
        message = self.message(sequence)
        if message.sender != user:
            raise Forbidden
        if message.gone(now):
            raise MessageGone
        if self.frozen:
            raise ChatFrozen
        message.content, message.edited_at = content, now
        self._append(Line("edited", user, now, target=sequence))

    def redact(self, user: str, sequence: int, now: int) -> None:
        role = self.member(user).role
        message = self.message(sequence)
        if message.sender != user and role == "member":
            raise Forbidden
        if message.gone(now) is None:
            message.content, message.is_redacted, message.reactions = None, True, []
            message.mentions = []
            self._append(Line("redacted", user, now, target=sequence))

    def react(self, user: str, sequence: int, emoji: str, now: int, *, away: bool) -> None:
        self.member(user)
        message = self.message(sequence)
        if self.frozen:
            raise ChatFrozen
        if ((emoji, user) in message.reactions) != away:
            return
        if message.gone(now):
            raise MessageGone
        if away:
            message.reactions.remove((emoji, user))
        else:
            message.reactions.append((emoji, user))
        kind = "unreacted" if away else "reacted"
        self._append(Line(kind, user, now, target=sequence, emoji=emoji))

    # Members.

    def put_member(self, actor: str, user: str, role: str | None, now: int) -> bool:
        """Whether the user is new."""
        own = self.member(actor).role
        self._check_group()
        if user not in self.members:
            role = role or "member"
            if own == "member" or (own == "admin" and role != "member"):
                raise Forbidden
            if (user, actor) in self.blocks:
                raise UserNotAddable
            self._append(Line("added", actor, now, people=[(user, role)]))
            self._admit([(user, role)])
            return True
        if role is None or role == self.members[user].role:
            return False
        if own != "owner":
            raise Forbidden
        if self._owners() == [user]:
            raise LastOwner
        self._change_role(actor, user, role, now)
        return False

    def remove_member(self, actor: str, user: str, now: int) -> None:
        own = self.member(actor).role
        self._check_group()
        if user not in self.members:
            raise MemberNotFound
        role = self.members[user].role
        if user != actor and (own == "member" or (own == "admin" and role != "member")):
            raise Forbidden
        self.take_out(actor, user, now)

    def take_out(self, actor: str, user: str, now: int) -> None:
        """Somebody is no longer a member; there is an owner as long as there are members."""
        role = self.members[user].role
        was_last_owner = self._owners() == [user]
        del self.members[user]
        self._append(Line("removed", actor, now, people=[(user, role)]))
        if was_last_owner and self.members:
            admins = [other for other, member in self.members.items() if member.role == "admin"]
            heirs = admins or list(self.members)
            heir = min(heirs, key=lambda other: (self.members[other].joined, other))
            self._change_role(actor, heir, "owner", now)

    def rename(self, actor: str, name: str, now: int) -> None:
        own = self.member(actor).role
        self._check_group()
        if own == "member":
            raise Forbidden
        if name != self.name:
            self.name = name
            self._append(Line("renamed", actor, now, name=name))

    def delete(self, actor: str, now: int) -> None:
        """Nothing is left but places: no members, no keys of sends, no content."""
        if (self.log[-1].kind, self.log[-1].sender) == ("deleted", actor):
            return
        role = self.member(actor).role
        self._check_group()
        if role != "owner":
            raise Forbidden
        self._append(Line("deleted", actor, now))
        self.members.clear()
        self.keys.clear()
        for line in self.log:
            line.content = None

    def mark(self, user: str, delivered: int, read: int, now: int) -> None:
        member = self.member(user)
        if max(delivered, read) > len(self.log):
            raise ReceiptBeyondHead
        if read > member.read:
            member.reads.append((read, now))
            member.mark_may_end = True
        if read > self.read_at_most(user):
            member.unread_from = 0
        member.read = max(member.read, read)
        member.due = max(member.due, read)
        member.delivered = max(member.delivered, delivered, read)

    def mute(self, user: str, until: int | None) -> None:
        self.member(user).muted_until = until

    def mark_unread(self, user: str, first: int | None) -> None:
        member = self.member(user)
        if first is not None and not max(1, member.joined) <= first <= len(self.log):
            raise Invalid("out of range")
        member.unread_from = first or 0
        member.mark_may_end = member.mark_must_end = False

    def hide(self, user: str, is_hidden: bool) -> None:
        self.member(user).hidden_number = self.number(len(self.log)) if is_hidden else -1

    def is_hidden(self, user: str) -> bool:
        """Whether no message came since the chat was hidden, or the last of a direct chat is of
        somebody whom the user blocks."""
        hidden_number = self.members[user].hidden_number
        senders = [line.sender for _, line in self.messages()]
        if self.kind == "direct" and senders and (user, senders[-1]) in self.blocks:
            return hidden_number >= 0
        return self.number(len(self.log)) <= hidden_number

    def sees_receipts(self, user: str) -> bool:
        """Whether the user sees all receipts as they are."""
        others = [other for other in self.members if (other, user) in self.blocks]
        return user in self.members and not (self.kind == "direct" and others)

    def _owners(self) -> list[str]:
        return [user for user, member in self.members.items() if member.role == "owner"]

    def change_settings(self, tenant: str, frozen: bool, slow_mode_seconds: int, now: int) -> None:
        if self.log[-1].kind == "deleted":
            raise ChatNotFound
        if (frozen, slow_mode_seconds) != (self.frozen, self.slow_mode_seconds):
            self.frozen, self.slow_mode_seconds = frozen, slow_mode_seconds
            self._append(Line("settings", tenant, now))

    def _check_settings(self, user: str, now: int) -> None:
        """Refuse everybody in a frozen chat, and a member who has sent a message since the last
        settings, not long ago."""
        if self.frozen:
            raise ChatFrozen
        since = now - 1_000 * self.slow_mode_seconds
        for line in reversed(self.log):
            if line.kind == "settings" or self.members[user].role != "member":
                return
            is_own = line.kind == "message" and line.sender == user and not line.is_by_tenant
            if is_own and line.at > since:
                raise SlowMode

    def _check_group(self) -> None:
        if self.kind == "direct":
            raise DirectChatFixed

    def _change_role(self, actor: str, user: str, role: str, now: int) -> None:
        self.members[user].role = role
        self._append(Line("role", actor, now, people=[(user, role)]))

    def _admit(self, people: list[tuple[str, str]]) -> None:
        """Make them members as of the last entry."""
        here, at = len(self.log), self.log[-1].at
        for user, role in people:
            self.members[user] = Membership(role, here, at, here, here, here)

    def _append(self, line: Line) -> int:
        self.log.append(line)
        return len(self.log)
