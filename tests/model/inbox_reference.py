# SPDX-License-Identifier: Apache-2.0
"""An inbox as it should be, in plain lists and dictionaries: slow, small, and obviously right."""

from dataclasses import dataclass, field

from tidings.model.refusals import NotificationNotFound, RequestConflict

DAY_MS = 24 * 3_600 * 1_000


@dataclass
class Post:
    """Something that was posted, with all that has become of it."""

    name: str
    title: str
    category: str | None
    time: int
    """Its place in the order of things."""
    expires_at: int
    users: list[str] | None
    """None: everyone."""
    sees_late: bool
    had: dict[str, int] = field(default_factory=dict)
    """Who has a copy, and since when."""
    is_redacted: bool = False

    def is_gone(self, now: int) -> bool:
        return self.is_redacted or self.expires_at <= now


@dataclass
class Marks:
    """What a user has read."""

    singly: dict[str, int] = field(default_factory=dict)
    before: int = 0
    announced: set[str] = field(default_factory=set)
    """What everyone had been told by then."""


@dataclass
class Row:
    """A line of a user's list."""

    name: str
    title: str
    received_at: int
    category: str | None
    read_at: set[int]
    """When it was read; of several marks either may be shown. Empty: it is unread."""


class Box:
    """One inbox of one tenant."""

    def __init__(self, keep_days: int, sees_late: bool) -> None:
        self.keep_ms = keep_days * DAY_MS
        self.sees_late = sees_late
        self.posts: dict[str, Post] = {}
        self.keys: dict[str, tuple[object, str, int]] = {}
        """Of each key: what was asked for, the name it got, until when."""
        self.waiting: list[str] = []
        """Those whose users have yet to get them."""
        self.marks: dict[str, Marks] = {}
        self.off: dict[str, set[str]] = {}
        """Categories that each user does not want."""
        self.entries = 0
        self.entry_time = 0

    def repeated(self, key: str | None, request: object, now: int) -> str | None:
        """The name of what was posted under the key; None if it is to be posted now."""
        if key is None or key not in self.keys or self.keys[key][2] <= now:
            return None
        asked, name, _ = self.keys[key]
        if asked != request:
            raise RequestConflict
        return name

    def post(
        self, name: str, title: str, category: str | None, users: list[str] | None, now: int
    ) -> Post:
        """Keep it under the name that the product gave it."""
        time = now
        if users is None:
            time = self._append(now)
            assert name == f"b{self.entries}"
        made = Post(name, title, category, time, now + self.keep_ms, users, self.sees_late)
        self.posts[name] = made
        if users is not None:
            self.waiting.append(name)
        return made

    def _append(self, now: int) -> int:
        self.entries += 1
        self.entry_time = max(now, self.entry_time + 1)
        return self.entry_time

    def deliver(self, name: str, now: int) -> None:
        """The users have it now; those who had it keep what they have."""
        post = self.posts[name]
        assert post.users is not None
        for user in post.users:
            if post.category not in self.off.get(user, ()):
                post.had.setdefault(user, now)
        if name in self.waiting:
            self.waiting.remove(name)

    def find(self, name: str, now: int) -> Post:
        post = self.posts.get(name)
        if post is None or post.expires_at <= now:
            raise NotificationNotFound
        return post

    def redact(self, name: str, now: int) -> None:
        post = self.find(name, now)
        if not post.is_redacted:
            self._append(now)
            post.is_redacted = True

    def read(self, user: str, joined_at: int, names: list[str], now: int) -> None:
        marks = self.marks.setdefault(user, Marks())
        for name in names:
            post = self.posts.get(name)
            if post is not None and self._has(post, user, joined_at):
                marks.singly.setdefault(name, now)

    def read_before(self, user: str, time: int, now: int) -> None:
        marks = self.marks.setdefault(user, Marks())
        marks.before = max(marks.before, min(time, now))
        until = max(now, self.entry_time) if time >= now else time
        marks.announced |= {
            post.name for post in self.posts.values() if post.users is None and post.time <= until
        }

    def rows(self, user: str, joined_at: int, now: int) -> list[Row]:
        """The whole list, newest first."""
        posts = [
            post
            for post in self.posts.values()
            if self._has(post, user, joined_at)
            and not post.is_gone(now)
            and not self._is_off(post, user)
        ]
        posts.sort(key=lambda post: (post.time, post.name), reverse=True)
        return [self._row(post, user) for post in posts]

    def _is_off(self, post: Post, user: str) -> bool:
        """Broadcasts are judged when they are read; copies were judged when they were made."""
        return post.users is None and post.category in self.off.get(user, ())

    def _has(self, post: Post, user: str, joined_at: int) -> bool:
        if post.users is None:
            return post.sees_late or joined_at <= post.time
        return user in post.had

    def _row(self, post: Post, user: str) -> Row:
        marks = self.marks.get(user, Marks())
        mark = marks.singly.get(post.name)
        read_at = set() if mark is None else {mark}
        received_at = post.time if post.users is None else post.had[user]
        if post.users is None and post.name in marks.announced:
            read_at.add(marks.before)
        elif post.users is not None and received_at <= marks.before and not read_at:
            read_at.add(marks.before)
        return Row(post.name, post.title, received_at, post.category, read_at)
