# SPDX-License-Identifier: Apache-2.0
"""What a chat of the reference consists of: entries and memberships."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Options(NamedTuple):
    """What a message answers, whom it mentions, whether the tenant posts it, and its files."""

    reply_to: int | None = None
    mentions: tuple[str, ...] = ()
    is_by_tenant: bool = False
    files: tuple[str, ...] = ()


NO_OPTIONS = Options()

WEEK_MS = 7 * 24 * 3_600 * 1_000


@dataclass
class Line:
    """One entry of a log, with all that has become of it."""

    kind: str
    sender: str
    at: int
    people: list[tuple[str, str]] = field(default_factory=list)
    """Who, and in which role."""
    name: str | None = None
    target: int | None = None
    emoji: str | None = None
    cmid: str | None = None
    content: str | None = None
    expires_at: int | None = None
    edited_at: int | None = None
    is_redacted: bool = False
    reactions: list[tuple[str, str]] = field(default_factory=list)
    """Emoji and user, in the order they came."""
    reply_to: int | None = None
    mentions: list[str] = field(default_factory=list)
    is_by_tenant: bool = False
    pinned: int = 0
    """The sequence of the entry that pinned it; 0: it is not pinned."""
    files: tuple[str, ...] = ()
    """The ids of its attachments."""

    def mentions_user(self, user: str) -> bool:
        """By name, or with everyone."""
        return "*" in self.mentions or user.partition(":")[2] in self.mentions

    def gone(self, now: int) -> str | None:
        """Why there is no content, if there is none."""
        if self.is_redacted:
            return "redacted"
        return "expired" if self.expires_at is not None and self.expires_at <= now else None


@dataclass
class Membership:
    """One member: role, mute, and receipt."""

    role: str
    joined: int
    joined_at: int
    delivered: int
    read: int
    """The read mark as it was last seen."""
    due: int
    """Where the read mark has to be once everything has settled."""
    muted_until: int | None = None
    unread_from: int = 0
    """From where the chat is marked as unread; 0: it is not."""
    mark_may_end: bool = False
    """Whether something happened that ends the mark now or a little later."""
    mark_must_end: bool = False
    """Whether the user has sent a message since, which certainly ends it."""
    hidden_number: int = -1
    reads: list[tuple[int, int]] = field(default_factory=list)
    """Each mark that may have moved what is read, and when."""
