# SPDX-License-Identifier: Apache-2.0
"""A tenant that posts to two inboxes, in the product and in the reference, while time passes."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.inbox_reference import DAY_MS, Box
from tests.model.product import Engine, Product
from tidings.actions.verbs import InboxVerbs
from tidings.model.ids import ulid, user_key
from tidings.model.notifications import Copy, InboxConfig, NotificationAction, Posting, PostOptions
from tidings.model.refusals import NotificationNotFound, RequestConflict

TENANT: Final = "acme"
FIRST: Final = ["ann", "bob"]
LATE: Final = ["cat", "dan", "eve"]
"""Users who come when they come; notifications may be there before them."""
INBOXES: Final = {"news": (2, True), "News": (3, False)}
"""How many days each keeps, and whether late joiners see what was before them."""

boxes = st.sampled_from(sorted(INBOXES))
everyone_there = st.sampled_from(FIRST + LATE)
picks = st.integers(0, 999)
categories = st.sampled_from([None, "red", "blue"])
keys = st.sampled_from([None, None, "k1", "k2"])
groups = st.sampled_from([None, None, "g1", "g2"])
lifetimes = st.sampled_from([None, None, None, 600, 7 * DAY_MS])
"""After how many milliseconds the tenant lets a notification expire."""


class InboxTenant(RuleBasedStateMachine):
    """A tenant with two inboxes, whose names differ in case only, in both worlds."""

    def __init__(self, engine: Engine, folder: Path, happened: Counter[str]) -> None:
        super().__init__()
        self.happened = happened
        self.joined: dict[str, int] = {}
        self.product = Product(engine, folder, [])
        self.boxes = {name: Box(*how) for name, how in INBOXES.items()}
        self.titles = itertools.count()

    def teardown(self) -> None:
        self.product.close()

    @property
    def now(self) -> int:
        return self.product.clock.now()

    @property
    def verbs(self) -> InboxVerbs:
        return self.product.deployment.core.inbox

    @initialize()
    def begin(self) -> None:
        store = self.product.deployment.core.store
        for name, (days, late) in INBOXES.items():
            config = InboxConfig(title=name, keep_days=days, late_joiners=late)
            self.product.run(store.inbox_settings.put_config(TENANT, name, config))
        for user in FIRST:
            self._join(user)

    def _join(self, user: str) -> None:
        self.product.run(self.product.deployment.people(user_key(TENANT, user)))
        self.joined[user] = self.now

    # --- What the tenant does -------------------------------------------------------------

    @rule(
        inbox=boxes,
        users=st.lists(everyone_there, min_size=1, max_size=4),
        category=categories,
        key=keys,
        group=groups,
        lives=lifetimes,
    )
    def post_to_users(
        self,
        inbox: str,
        users: list[str],
        category: str | None,
        key: str | None,
        group: str | None,
        lives: int | None,
    ) -> None:
        self._post(inbox, users, category, key, group, lives)

    @rule(inbox=boxes, category=categories, key=keys, group=groups, lives=lifetimes)
    def broadcast(
        self,
        inbox: str,
        category: str | None,
        key: str | None,
        group: str | None,
        lives: int | None,
    ) -> None:
        self._post(inbox, None, category, key, group, lives)

    def _post(
        self,
        inbox: str,
        users: list[str] | None,
        category: str | None,
        key: str | None,
        group: str | None,
        lives: int | None,
    ) -> None:
        box = self.boxes[inbox]
        title = "same" if key else f"t{next(self.titles)}"
        distinct = None if users is None else list(dict.fromkeys(users))
        expires_at = None if lives is None or key else self.now + lives
        names = ("yes", "no") if category else ()
        options = PostOptions(
            actions=tuple(NotificationAction(id=name, label=name) for name in names),
            collapse_key=group,
            expires_at=expires_at,
        )
        message: dict[str, object] = {"title": title, "body": ""}
        posting = Posting(users=users, message=message, category=category, options=options)
        post = self.verbs.post(TENANT, inbox, posting, key)
        request = (distinct, category, group)
        try:
            known = box.repeated(key, request, self.now)
        except RequestConflict:
            self.happened["RequestConflict"] += 1
            with pytest.raises(RequestConflict):
                self.product.run(post)
            return
        posted = self.product.run(post)
        assert posted.is_replay == (known is not None)
        self.happened["repeat"] += posted.is_replay
        if known is not None:
            assert posted.notification_id == known
            return
        self.happened["broadcast" if users is None else "to users"] += 1
        more = {"group": group, "actions": names, "expires_at": expires_at}
        box.post(posted.notification_id, title, category, distinct, self.now, **more)
        self.happened["expires early"] += lives == 600 and not key
        if distinct is not None:
            assert (posted.recipients, posted.estimated) == (len(distinct), False)
        if key is not None:
            box.keys[key] = (request, posted.notification_id, self.now + DAY_MS)

    @precondition(lambda self: any(box.waiting for box in self.boxes.values()))
    @rule(most=st.integers(1, 3))
    def deliver(self, most: int) -> None:
        """Some jobs are done, as the runner of jobs would."""
        core = self.product.deployment.core
        for taken in self.product.run(core.jobs.take(most)):
            job = taken.job
            copy = Copy(
                notification_id=job.notification_id,
                category=job.category,
                received_at=self.now,
                expires_at=job.expires_at,
                collapse=job.collapse,
            )
            listed = [user_key(TENANT, user) for user in job.users]
            users = self.product.run(self.verbs.reachable.wanting(listed, job.inbox, job.category))
            self.happened["not wanted"] += len(users) < len(listed)
            self.product.run(core.store.copies.deliver(users, job.inbox, copy))
            self.product.run(
                core.store.notifications.finish_job(
                    TENANT, job.inbox, job.notification_id, job.number
                )
            )
            self.product.run(core.jobs.finish(taken))
            self.boxes[job.inbox].deliver(job.notification_id, self.now)
            self.happened["delivered"] += 1

    @rule(inbox=boxes, pick=picks)
    def redact(self, inbox: str, pick: int) -> None:
        box = self.boxes[inbox]
        name = self._name(inbox, pick)
        try:
            was = box.find(name, self.now).is_redacted
        except NotificationNotFound:
            self.happened["NotificationNotFound"] += 1
            for verb in (self.verbs.redact, self.verbs.progress):
                with pytest.raises(NotificationNotFound):
                    self.product.run(verb(TENANT, inbox, name))
            return
        self.happened["redacted again" if was else "redacted"] += 1
        self.happened["redacted before delivery"] += name in box.waiting
        box.redact(name, self.now)
        self.product.run(self.verbs.redact(TENANT, inbox, name))

    @rule(inbox=boxes, pick=picks, limit=st.sampled_from([1, 3, 100]))
    def progress(self, inbox: str, pick: int, limit: int) -> None:
        """Of one post, and the list of all."""
        self.compare_posted(inbox, limit)
        box = self.boxes[inbox]
        name = self._name(inbox, pick)
        post = box.posts.get(name) or box.later.get(name)
        if post is None or post.expires_at <= self.now:
            return
        progress = self.product.run(self.verbs.progress(TENANT, inbox, name))
        if post.is_redacted:
            assert progress.status == "redacted"
        elif post.deliver_at is not None and (post.users is None or post.deliver_at > self.now):
            assert (progress.status, progress.delivered) == ("scheduled", 0)
        elif post.deliver_at is None and name not in box.waiting:
            assert (progress.status, progress.delivered) == ("done", progress.recipients)
        else:
            assert (progress.status, progress.delivered) == ("queued", 0)

    def compare_posted(self, inbox: str, limit: int) -> None:
        """The tenant sees everything once: what waits for its time, and what had it."""
        box = self.boxes[inbox]
        waiting = {name: post for name, post in box.later.items() if post.deliver_at is not None}
        expected = {
            name: (
                None if post.is_redacted else post.title,
                not post.is_redacted and (post.deliver_at or 0) > self.now,
                post.expires_at,
            )
            for name, post in {**box.posts, **waiting}.items()
            if post.expires_at > self.now
        }
        found = self.product.run(self._posted(inbox, limit))
        assert len(dict(found)) == len(found)
        assert dict(found) == expected

    async def _posted(self, inbox: str, limit: int) -> list[tuple[str, Any]]:
        found = []
        cursor = None
        while True:
            page, cursor = await self.verbs.posted(TENANT, inbox, cursor, limit)
            found += page
            if cursor is None:
                break
        return [
            (
                one.posted.notification_id,
                (
                    one.text and one.text.message["title"],
                    one.is_scheduled,
                    one.posted.expires_at,
                ),
            )
            for one in found
        ]

    def _name(self, inbox: str, pick: int) -> str:
        """Something that was posted; now and then to the other inbox, or never."""
        names = [name for box in self.boxes.values() for name in {**box.posts, **box.later}]
        own = list({**self.boxes[inbox].posts, **self.boxes[inbox].later})
        if pick % 8 == 0 or not own:
            return [*names, "b999", "b998", ulid(self.now, bytes(10))][pick // 8 % (len(names) + 3)]
        return own[pick // 8 % len(own)]

    # --- Time and death -------------------------------------------------------------------

    @rule(by=st.sampled_from([1, 1, 500, 5_000, DAY_MS // 2]))
    def time_passes(self, by: int) -> None:
        gone = sum(
            post.is_gone(self.now) for box in self.boxes.values() for post in box.posts.values()
        )
        self.product.clock.time += by
        still = sum(
            post.is_gone(self.now) for box in self.boxes.values() for post in box.posts.values()
        )
        self.happened["expired"] += still - gone

    @rule()
    def restart(self) -> None:
        """What the process knew is gone; what it answered is not."""
        self.product.restart()
        self.happened["restart"] += 1
