# SPDX-License-Identifier: Apache-2.0
"""Whatever a tenant posts and users read in whatever order, lists and counts are as they should."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.inbox_reference import DAY_MS, Box, Row
from tests.model.product import Engine, Product
from tests.model.running import IS_SOAK, LONG, QUICK, SHORT, run, run_until
from tests.support.engine import ENGINES
from tidings.actions.inbox.reading import ListedNotification, ListFilter
from tidings.actions.verbs import InboxVerbs
from tidings.model.ids import UserKey, ulid, user_key
from tidings.model.notifications import Copy, InboxConfig, Posting
from tidings.model.preferences import CategoryChoice, Preferences
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
EVERYTHING: Final = {
    "to users", "broadcast", "repeat", "RequestConflict", "redacted", "redacted again",
    "redacted before delivery", "NotificationNotFound", "read", "read before", "late joiner",
    "expired", "restart", "delivered", "hidden from a late joiner",
    "chosen", "not wanted",
}  # fmt: skip
SEEDS: Final = (0, 1)
"""The second meets everything."""


class InboxMachine(RuleBasedStateMachine):
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
    )
    def post_to_users(
        self, inbox: str, users: list[str], category: str | None, key: str | None
    ) -> None:
        self._post(inbox, users, category, key)

    @rule(inbox=boxes, category=categories, key=keys)
    def broadcast(self, inbox: str, category: str | None, key: str | None) -> None:
        self._post(inbox, None, category, key)

    def _post(
        self, inbox: str, users: list[str] | None, category: str | None, key: str | None
    ) -> None:
        box = self.boxes[inbox]
        title = "same" if key else f"t{next(self.titles)}"
        distinct = None if users is None else list(dict.fromkeys(users))
        posting = Posting(users=users, message={"title": title, "body": ""}, category=category)
        post = self.verbs.post(TENANT, inbox, posting, key)
        request = (distinct, category)
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
        box.post(posted.notification_id, title, category, distinct, self.now)
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

    @rule(inbox=boxes, pick=picks)
    def progress(self, inbox: str, pick: int) -> None:
        box = self.boxes[inbox]
        name = self._name(inbox, pick)
        post = box.posts.get(name)
        if post is None or post.expires_at <= self.now:
            return
        progress = self.product.run(self.verbs.progress(TENANT, inbox, name))
        if post.is_redacted:
            assert progress.status == "redacted"
        elif post.users is None or name not in box.waiting:
            assert (progress.status, progress.delivered) == ("done", progress.recipients)
        else:
            assert (progress.status, progress.delivered) == ("queued", 0)

    def _name(self, inbox: str, pick: int) -> str:
        """Something that was posted; now and then to the other inbox, or never."""
        names = [name for box in self.boxes.values() for name in box.posts]
        own = list(self.boxes[inbox].posts)
        if pick % 8 == 0 or not own:
            return [*names, "b999", "b1", ulid(self.now, bytes(10))][pick // 8 % (len(names) + 3)]
        return own[pick // 8 % len(own)]

    # --- What users do --------------------------------------------------------------------

    @rule(inbox=boxes, user=picks, chosen=st.lists(picks, min_size=1, max_size=4))
    def read(self, inbox: str, user: int, chosen: list[int]) -> None:
        who = self._user(user)
        names = [self._name(inbox, pick) for pick in chosen] + ["nonsense"]
        self.boxes[inbox].read(who, self.joined[who], names, self.now)
        left = self.product.run(self.verbs.read.some(self._key(who), inbox, names))
        assert left.total == self._unread(inbox, who)[0]
        self.happened["read"] += 1

    @rule(inbox=boxes, user=picks, ago=st.sampled_from([-9, 0, 0, 0, 1, 700, 2_000]))
    def read_before(self, inbox: str, user: int, ago: int) -> None:
        who = self._user(user)
        self.boxes[inbox].read_before(who, self.now - ago, self.now)
        left = self.product.run(self.verbs.read.before(self._key(who), inbox, self.now - ago))
        assert (left.total, left.categories) == self._unread(inbox, who)
        self.happened["read before"] += 1

    @rule(inbox=boxes, user=picks, off=st.sets(st.sampled_from(["red", "blue"]), max_size=2))
    def choose(self, inbox: str, user: int, off: set[str]) -> None:
        who = self._user(user)
        self.boxes[inbox].off[who] = off
        chosen = Preferences(
            categories={name: CategoryChoice(in_app=False) for name in sorted(off)}
        )
        self.product.run(self.verbs.preferences.put(self._key(who), inbox, chosen))
        self.happened["chosen"] += 1

    @precondition(lambda self: len(self.joined) < len(FIRST) + len(LATE))
    @rule()
    def join(self) -> None:
        self._join(LATE[len(self.joined) - len(FIRST)])
        self.happened["late joiner"] += 1

    def _user(self, pick: int) -> str:
        return list(self.joined)[pick % len(self.joined)]

    def _key(self, user: str) -> UserKey:
        return user_key(TENANT, user)

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

    # --- What has to be ---------------------------------------------------------------------

    @rule(
        limit=st.integers(1, 5),
        category=st.sampled_from([None, None, "red", "blue"]),
        unread=st.sampled_from([None, None, True, False]),
    )
    def compare(self, limit: int, category: str | None, unread: bool | None) -> None:
        """Every user's list, page by page, and count."""
        for inbox, box in self.boxes.items():
            for user, joined_at in self.joined.items():
                rows = [
                    row
                    for row in box.rows(user, joined_at, self.now)
                    if category in (None, row.category) and unread in (None, not row.read_at)
                ]
                wanted = ListFilter(limit=limit, category=category, unread=unread)
                self._check(rows, self._list(user, inbox, wanted))
                count = self.product.run(self.verbs.unread(self._key(user), inbox))
                assert (count.total, count.categories) == self._unread(inbox, user)
                told = [post for post in box.posts.values() if post.users is None]
                self.happened["hidden from a late joiner"] += any(
                    not post.sees_late and joined_at > post.time for post in told
                )

    def _check(self, rows: list[Row], listed: list[ListedNotification]) -> None:
        assert [one.received.notification_id for one in listed] == [row.name for row in rows]
        for row, one in zip(rows, listed, strict=True):
            assert one.shown.text.message == {"title": row.title, "body": ""}
            assert one.received.category == row.category
            assert one.received.received_at == row.received_at
            assert one.received.read_at in (row.read_at or (None,))

    def _list(self, user: str, inbox: str, wanted: ListFilter) -> list[ListedNotification]:
        found: list[ListedNotification] = []
        cursor = None
        while True:
            asked = ListFilter(
                limit=wanted.limit, category=wanted.category, unread=wanted.unread, cursor=cursor
            )
            page, cursor = self.product.run(self.verbs.list(self._key(user), inbox, asked))
            assert len(page) <= wanted.limit
            found += page
            if cursor is None:
                return found

    def _unread(self, inbox: str, user: str) -> tuple[int, dict[str, int]]:
        rows = self.boxes[inbox].rows(user, self.joined[user], self.now)
        left = [row for row in rows if not row.read_at]
        return len(left), dict(Counter(row.category for row in left if row.category is not None))


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_SOAK else 300)
def test_the_inbox_is_what_the_reference_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    happened = run_until(EVERYTHING, InboxMachine, engine_of("sqlite"), tmp_path, QUICK, SEEDS)
    assert {what for what in EVERYTHING if not happened[what]} == set()


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_SOAK else 300)
def test_the_inbox_is_so_on_dynamodb(engine_of: Callable[[str], Engine], tmp_path: Path) -> None:
    """Fewer runs: a redaction is answered only after a second."""
    wanted = ("broadcast", "delivered", "redacted")
    happened = run_until(wanted, InboxMachine, engine_of("dynamodb"), tmp_path, SHORT)
    assert {what for what in wanted if not happened[what]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_the_inbox_is_what_the_reference_says_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    run(
        InboxMachine,
        engine_of(engine),
        tmp_path,
        LONG,
        (random.randrange(2**32) for _ in range(200)),
    )
