# SPDX-License-Identifier: Apache-2.0
"""An inbox as it should be, in plain lists and dictionaries: slow, small, and obviously right."""

from dataclasses import dataclass, field
from typing import Any

from tidings.model.outgoing_refusals import ActionNotFound
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
    group: str | None = None
    """Its collapse key."""
    actions: tuple[str, ...] = ()
    deliver_at: int | None = None
    """When it is to be delivered; None: at once, or that has happened."""

    def is_gone(self, now: int) -> bool:
        return self.is_redacted or self.expires_at <= now


@dataclass
class Own:
    """What a user did with one post; of several times of a state either may be shown."""

    times: dict[str, set[int]] = field(
        default_factory=lambda: {"seen": set(), "read": set(), "archived": set()}
    )
    snoozed_until: int | None = None
    acted: tuple[str, int] | None = None


@dataclass
class Row:
    """A line of a user's list."""

    name: str
    title: str
    received_at: int
    category: str | None
    own: Own
    group: str | None
    others: int = 0
    """How many others of its group are unread."""
    is_closed: bool = False
    """A read one of its group was met: older ones of the group are read by that."""

    @property
    def is_unread(self) -> bool:
        return not self.own.times["read"]

    @property
    def is_unseen(self) -> bool:
        return self.is_unread and not self.own.times["seen"]

    @property
    def is_archived(self) -> bool:
        return bool(self.own.times["archived"])

    def is_snoozed(self, now: int) -> bool:
        return (self.own.snoozed_until or 0) > now


class Box:
    """One inbox of one tenant."""

    def __init__(self, keep_days: int, sees_late: bool) -> None:
        self.keep_ms = keep_days * DAY_MS
        self.sees_late = sees_late
        self.posts: dict[str, Post] = {}
        self.later: dict[str, Post] = {}
        """What was posted for a later time."""
        self.keys: dict[str, tuple[object, str, int]] = {}
        """Of each key: what was asked for, the name it got, until when."""
        self.waiting: list[str] = []
        """Those whose users have yet to get them."""
        self.own: dict[tuple[str, str], Own] = {}
        """What each user did with each post."""
        self.marks: dict[tuple[str, str], int] = {}
        """Up to when everything that a user has is seen, read or archived."""
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
        self,
        name: str,
        title: str,
        category: str | None,
        users: list[str] | None,
        now: int,
        **more: Any,
    ) -> Post:
        """Keep it under the name that the product gave it."""
        expires_at = min(now + self.keep_ms, more.pop("expires_at", None) or now + self.keep_ms)
        time = now
        if users is None:
            time = self._append(now)
            assert name == f"b{self.entries}"
        made = Post(name, title, category, time, expires_at, users, self.sees_late, **more)
        self.posts[name] = made
        if users is not None:
            self.waiting.append(name)
        return made

    def post_for_later(
        self,
        name: str,
        title: str,
        category: str | None,
        users: list[str] | None,
        deliver_at: int,
        **more: Any,
    ) -> None:
        """Keep it until its time; it is in nobody's list before."""
        kept_until = deliver_at + self.keep_ms
        expires_at = min(kept_until, more.pop("expires_at", None) or kept_until)
        self.later[name] = Post(
            name, title, category, deliver_at, expires_at, users, self.sees_late,
            deliver_at=deliver_at, **more,
        )  # fmt: skip

    def become_due(self, name: str, now: int) -> None:
        """Its time has come: it takes its place now, unless it was retracted or is too old."""
        post = self.later[name]
        if post.deliver_at is None or post.is_gone(now):
            return
        post.deliver_at = None
        self.posts[name] = post
        if post.users is None:
            post.time = self._append(now)
        else:
            self.deliver(name, now)

    def _append(self, now: int) -> int:
        self.entries += 1
        self.entry_time = max(now, self.entry_time + 1)
        return self.entry_time

    def deliver(self, name: str, now: int) -> None:
        """The users have it now; those who had it keep what they have."""
        post = self.posts[name]
        assert post.users is not None
        for user in post.users:
            if user not in post.had and post.category not in self.off.get(user, ()):
                post.had[user] = now
                for kind, times in self._own(post, user).times.items():
                    if (mark := self.marks.get((user, kind), 0)) >= now:
                        times.add(mark)
        if name in self.waiting:
            self.waiting.remove(name)

    def find(self, name: str, now: int) -> Post:
        post = self.posts.get(name) or self.later.get(name)
        if post is None or post.expires_at <= now:
            raise NotificationNotFound
        return post

    def redact(self, name: str, now: int) -> None:
        post = self.find(name, now)
        if not post.is_redacted:
            self._append(now)
            post.is_redacted = True

    def change(
        self, user: str, joined_at: int, names: list[str], states: dict[str, Any], now: int
    ) -> None:
        for name in names:
            post = self.posts.get(name)
            if post is not None and self._has(post, user, joined_at):
                self._change(self._own(post, user), states, now)

    def _change(self, own: Own, states: dict[str, Any], now: int) -> None:
        if states.get("read") is False and states.get("seen") is None:
            states = {**states, "seen": True}
        for kind, times in own.times.items():
            if states.get(kind):
                times.add(now)
            elif states.get(kind) is False:
                times.clear()
        if "snoozed_until" in states:
            own.snoozed_until = states["snoozed_until"]

    def change_before(
        self, user: str, joined_at: int, time: int, kinds: list[str], now: int
    ) -> None:
        until = max(now, self.entry_time) if time >= now else time
        for kind in kinds:
            self.marks[user, kind] = max(self.marks.get((user, kind), 0), min(time, now))
        for post in self.posts.values():
            if self._has(post, user, joined_at):
                is_met = post.time <= until
                if post.users is not None:
                    is_met = post.had[user] <= min(time, now)
                for kind in kinds if is_met else ():
                    self._own(post, user).times[kind].add(min(time, now))

    def act(self, user: str, joined_at: int, name: str, action: str, now: int) -> tuple[str, int]:
        """Return which action was taken, and when."""
        post = self.posts.get(name)
        if post is None or post.is_gone(now) or not self._has(post, user, joined_at):
            raise NotificationNotFound
        if action not in post.actions:
            raise ActionNotFound
        own = self._own(post, user)
        if own.acted is None:
            own.acted = action, now
            own.times["read"].add(now)
        return own.acted

    def rows(self, user: str, joined_at: int, now: int) -> list[Row]:
        """The whole list, newest first, each group by its newest."""
        posts = [
            post
            for post in self.posts.values()
            if self._has(post, user, joined_at)
            and not post.is_gone(now)
            and not self._is_off(post, user)
        ]
        posts.sort(key=lambda post: (post.time, post.name), reverse=True)
        shown: list[Row] = []
        for post in posts:
            row = self._row(post, user)
            heads = [head for head in shown if head.group and head.group == row.group]
            if not heads:
                shown.append(row)
            elif row.is_unread and heads[0].is_unread and not heads[0].is_closed:
                heads[0].others += 1
            else:
                heads[0].is_closed = True
        return shown

    def _own(self, post: Post, user: str) -> Own:
        return self.own.setdefault((user, post.name), Own())

    def _is_off(self, post: Post, user: str) -> bool:
        """Broadcasts are judged when they are read; copies were judged when they were made."""
        return post.users is None and post.category in self.off.get(user, ())

    def _has(self, post: Post, user: str, joined_at: int) -> bool:
        if post.users is None:
            return post.sees_late or joined_at <= post.time
        return user in post.had

    def _row(self, post: Post, user: str) -> Row:
        received_at = post.time if post.users is None else post.had[user]
        own = self.own.get((user, post.name), Own())
        return Row(post.name, post.title, received_at, post.category, own, post.group)
