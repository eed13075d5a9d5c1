# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages as they should be, in the reference."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.model.lines import Options
from tests.model.reference import Room
from tests.model.tenancy import DAY_MS, Tenancy
from tidings.model.ids import ChatId
from tidings.model.refusals import Invalid, MentionUnknown, Refusal, SendConflict
from tidings.model.scheduled import SENT_AS, ScheduledNotFound, ScheduledTooLate

FAILED_DAYS: Final = 30


class Request(NamedTuple):
    """What is to be sent, and when."""

    text: str
    send_at: int
    ttl_seconds: int | None
    options: Options


@dataclass
class Draft:
    """A message that is to be sent later, with all that has become of it."""

    user: str
    chat: str
    asked: Request
    """The first request, by which a repeat is recognised."""
    wanted: Request
    """The same with all changes since."""
    name: str = ""
    """The id that the product gave it."""
    state: str = "pending"
    code: str | None = None
    sequence: int | None = None
    ended_at: int = 0

    @property
    def send_at(self) -> int:
        return self.wanted.send_at

    @property
    def files(self) -> tuple[str, ...]:
        return self.wanted.options.files

    def is_kept(self, now: int) -> bool:
        """Whether the product certainly knows it still."""
        return self.state == "pending" or self.ended_at + DAY_MS > now

    @property
    def sent_as(self) -> str:
        return f"{SENT_AS}{self.name}"


def check_mentions(room: Room, user: str, mentions: tuple[str, ...]) -> None:
    """Refuse an author who is not a member, and mentions of others who are not."""
    room.member(user)
    names = {user.partition(":")[2] for user in room.members}
    if mentions != ("*",) and not names.issuperset(mentions):
        raise MentionUnknown


@dataclass
class Drafts:
    """The scheduled messages of all users."""

    tenancy: Tenancy
    all: dict[tuple[str, str, str], Draft] = field(default_factory=dict)
    """By author, chat and client_message_id."""

    def add(self, room: Room, key: tuple[str, str, str], draft: Draft, now: int) -> Draft:
        """Schedule a message; a repeat gets the first one, whatever became of it."""
        known = self.all.get(key)
        if known is not None:
            if known.asked != draft.asked:
                raise SendConflict
            return known
        if draft.send_at <= now:
            raise Invalid("in the past")
        self.tenancy.check_ban(draft.user, now)
        check_mentions(room, draft.user, draft.wanted.options.mentions)
        self.tenancy.shelf.check(draft.user, draft.files, "", now)
        self.all[key] = draft
        return draft

    def pending(self, user: str, name: str) -> Draft:
        """A message of the user that can still be changed."""
        found = [one for one in self.all.values() if (one.user, one.name) == (user, name)]
        if not found or found[0].state == "cancelled":
            raise ScheduledNotFound
        if found[0].state != "pending":
            raise ScheduledTooLate
        return found[0]

    def cancel(self, user: str, name: str, now: int) -> None:
        if any((one.name, one.state) == (name, "cancelled") for one in self.of(user)):
            return
        draft = self.pending(user, name)
        draft.state, draft.ended_at = "cancelled", now
        self.tenancy.shelf.release(draft.files, now)

    def chat_of(self, draft: Draft) -> ChatId:
        return next(ChatId(chat) for (_, chat, _), one in self.all.items() if one is draft)

    def of(self, user: str) -> list[Draft]:
        return [draft for draft in self.all.values() if draft.user == user]

    def listed(self, user: str, now: int) -> list[Draft]:
        """Those that are pending, and those that failed not long ago, by their times."""
        kept = now - FAILED_DAYS * DAY_MS
        found = [
            draft
            for draft in self.of(user)
            if draft.state == "pending" or (draft.state == "failed" and draft.ended_at > kept)
        ]
        return sorted(found, key=lambda draft: (draft.send_at, draft.name))

    def fire(self, draft: Draft, room: Room, now: int, kept_ms: int | None) -> None:
        """Send it as an ordinary message, or note why it cannot be sent."""
        draft.ended_at = now
        try:
            self.tenancy.check_ban(draft.user, now)
            text, _, ttl_seconds, options = draft.wanted
            draft.sequence, _ = room.send(
                draft.user, draft.sent_as, text, ttl_seconds, now, kept_ms, options
            )
            draft.state = "sent"
        except Refusal as refusal:
            draft.state, draft.code = "failed", refusal.code
            self.tenancy.shelf.release(draft.files, now)
