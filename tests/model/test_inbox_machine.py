# SPDX-License-Identifier: Apache-2.0
"""Whatever a tenant posts and users read in whatever order, lists and counts are as they should."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec import UNSET

from tests.model.inbox_later import LaterRules
from tests.model.inbox_reference import Own, Row
from tests.model.inbox_tenant import FIRST, LATE, TENANT, boxes, picks
from tests.model.product import Engine
from tests.model.running import LONG, QUICK, SHORT, run, run_until
from tests.support.engine import ENGINES
from tidings.actions.inbox.reading import ListedNotification, ListFilter
from tidings.model.ids import UserKey, user_key
from tidings.model.inbox_reading import InboxItem, UnreadCount
from tidings.model.notification_states import StateChange
from tidings.model.outgoing_refusals import ActionNotFound
from tidings.model.preferences import CategoryChoice, Preferences
from tidings.model.refusals import Invalid, NotificationNotFound

EVERYTHING: Final = {
    "to users", "broadcast", "repeat", "RequestConflict", "redacted", "redacted again",
    "redacted before delivery", "NotificationNotFound", "read", "read before", "late joiner",
    "expired", "restart", "delivered", "hidden from a late joiner", "states", "states before",
    "unread again", "archived", "snoozed", "woke up", "collapsed", "acted", "acted again",
    "ActionNotFound", "expires early", "chosen", "not wanted", "for later", "due",
    "retracted before its time",
}  # fmt: skip
SEEDS: Final = (0, 2, 8, 9)
"""Together they meet everything, as long as the rules are the same."""
switches = st.sampled_from([None, None, True, False])
snoozes = st.sampled_from([UNSET, UNSET, None, -5, 400, 4_000])
"""For how long a user snoozes; None ends it."""


class InboxMachine(LaterRules):
    """The users of the two inboxes."""

    # --- What users do --------------------------------------------------------------------

    @rule(inbox=boxes, user=picks, chosen=st.lists(picks, min_size=1, max_size=4))
    def read(self, inbox: str, user: int, chosen: list[int]) -> None:
        who = self._user(user)
        names = [self._name(inbox, pick) for pick in chosen] + ["nonsense"]
        self.boxes[inbox].change(who, self.joined[who], names, {"read": True}, self.now)
        left = self.product.run(self.verbs.read.some(self._key(who), inbox, names))
        assert left.total == self._unread(inbox, who)[0]
        self.happened["read"] += 1

    @rule(inbox=boxes, user=picks, ago=st.sampled_from([-9, 0, 0, 0, 1, 700, 2_000]))
    def read_before(self, inbox: str, user: int, ago: int) -> None:
        who = self._user(user)
        box = self.boxes[inbox]
        box.change_before(who, self.joined[who], self.now - ago, ["read"], self.now)
        left = self.product.run(self.verbs.read.before(self._key(who), inbox, self.now - ago))
        assert (left.total, left.categories) == self._unread(inbox, who)
        self.happened["read before"] += 1

    @rule(
        inbox=boxes,
        user=picks,
        chosen=st.lists(picks, min_size=1, max_size=4),
        seen=switches,
        read=switches,
        archived=switches,
        snooze=snoozes,
    )
    def change_states(
        self,
        inbox: str,
        user: int,
        chosen: list[int],
        seen: bool | None,
        read: bool | None,
        archived: bool | None,
        snooze: Any,
    ) -> None:
        who, names = self._user(user), [self._name(inbox, pick) for pick in chosen]
        until = snooze if snooze in (None, UNSET) else self.now + snooze
        change = StateChange(seen=seen, read=read, archived=archived, snoozed_until=until)
        asked = self.verbs.states.some(self._key(who), inbox, names, change)
        if change == StateChange():
            with pytest.raises(Invalid):
                self.product.run(asked)
            return
        wanted = {"seen": seen, "read": read, "archived": archived}
        more = {} if until is UNSET else {"snoozed_until": until}
        self.boxes[inbox].change(who, self.joined[who], names, {**wanted, **more}, self.now)
        self._compare_count(inbox, who, self.product.run(asked))
        self.happened["states"] += 1
        self.happened["unread again"] += read is False

    @rule(
        inbox=boxes,
        user=picks,
        ago=st.sampled_from([-9, 0, 0, 1, 700, 2_000]),
        kinds=st.sampled_from([["seen"], ["seen", "read"], ["archived"]]),
    )
    def change_states_before(self, inbox: str, user: int, ago: int, kinds: list[str]) -> None:
        who, time = self._user(user), self.now - ago
        self.boxes[inbox].change_before(who, self.joined[who], time, kinds, self.now)
        change = StateChange(**dict.fromkeys(kinds, True))
        left = self.product.run(self.verbs.states.before(self._key(who), inbox, time, change))
        self._compare_count(inbox, who, left)
        self.happened["states before"] += 1

    @rule(
        inbox=boxes,
        user=picks,
        pick=picks,
        actions=st.lists(st.sampled_from(["yes", "no", "other"]), min_size=1, max_size=3),
    )
    def act(self, inbox: str, user: int, pick: int, actions: list[str]) -> None:
        who, name = self._user(user), self._name(inbox, pick)
        for action in actions:
            self._act(inbox, who, name, action)

    def _act(self, inbox: str, who: str, name: str, action: str) -> None:
        acting = self.verbs.act(self._key(who), inbox, name, action)
        try:
            before = self.boxes[inbox].own.get((who, name), Own()).acted
            taken = self.boxes[inbox].act(who, self.joined[who], name, action, self.now)
        except (NotificationNotFound, ActionNotFound) as refused:
            self.happened[type(refused).__name__] += 1
            with pytest.raises(type(refused)):
                self.product.run(acting)
            return
        acted = self.product.run(acting)
        assert (acted.action, acted.at) == taken
        self.happened["acted" if before is None else "acted again"] += 1

    @rule(inbox=boxes, user=picks, off=st.sampled_from([set(), {"red"}, {"blue"}, {"red", "blue"}]))
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

    # --- What has to be ---------------------------------------------------------------------

    @rule(
        limit=st.integers(1, 5),
        category=st.sampled_from([None, None, "red", "blue"]),
        unread=st.sampled_from([None, None, True, False]),
        archived=st.sampled_from([False, False, True]),
        snoozed=st.sampled_from([None, None, True, False]),
    )
    def compare(
        self,
        limit: int,
        category: str | None,
        unread: bool | None,
        archived: bool,
        snoozed: bool | None,
    ) -> None:
        """Every user's list, page by page, and count."""
        for inbox, box in self.boxes.items():
            for user, joined_at in self.joined.items():
                whole = box.rows(user, joined_at, self.now)
                rows = [
                    row
                    for row in whole
                    if category in (None, row.category)
                    and unread in (None, row.is_unread)
                    and archived == row.is_archived
                    and (row.is_snoozed(self.now) in _snoozed(snoozed, archived))
                ]
                self._note(whole)
                wanted = ListFilter(
                    limit=limit, category=category, unread=unread, archived=archived,
                    snoozed=snoozed,
                )  # fmt: skip
                self._check(rows, self._list(user, inbox, wanted))
                count = self.product.run(self.verbs.unread(self._key(user), inbox))
                self._compare_count(inbox, user, count)
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
            self._check_states(row, one.received)

    def _check_states(self, row: Row, found: InboxItem) -> None:
        times = row.own.times
        assert found.read_at in (times["read"] or (None,))
        assert found.archived_at in (times["archived"] or (None,))
        assert found.seen_at in (times["seen"] or times["read"] or (None,))
        assert found.snoozed_until == row.own.snoozed_until
        assert found.collapsed == row.others
        acted = None if found.acted is None else (found.acted, found.acted_at)
        assert acted == row.own.acted

    def _note(self, rows: list[Row]) -> None:
        for row in rows:
            self.happened["archived"] += row.is_archived
            self.happened["snoozed"] += row.is_snoozed(self.now)
            self.happened["woke up"] += 0 < (row.own.snoozed_until or 0) <= self.now
            self.happened["collapsed"] += row.others > 0

    def _list(self, user: str, inbox: str, wanted: ListFilter) -> list[ListedNotification]:
        found: list[ListedNotification] = []
        cursor = None
        while True:
            asked = msgspec.structs.replace(wanted, cursor=cursor)
            page, cursor = self.product.run(self.verbs.list(self._key(user), inbox, asked))
            assert len(page) <= wanted.limit
            found += page
            if cursor is None:
                return found

    def _compare_count(self, inbox: str, user: str, count: UnreadCount) -> None:
        rows = self._counted(inbox, user)
        assert (count.total, count.categories) == self._unread(inbox, user)
        assert count.unseen == sum(row.is_unseen for row in rows)

    def _counted(self, inbox: str, user: str) -> list[Row]:
        rows = self.boxes[inbox].rows(user, self.joined[user], self.now)
        return [row for row in rows if not row.is_archived and not row.is_snoozed(self.now)]

    def _unread(self, inbox: str, user: str) -> tuple[int, dict[str, int]]:
        left = [row for row in self._counted(inbox, user) if row.is_unread]
        return len(left), dict(Counter(row.category for row in left if row.category is not None))


def _snoozed(wanted: bool | None, archived: bool) -> tuple[bool, ...]:
    if wanted is None and archived:
        return True, False
    return (bool(wanted),)


@pytest.mark.slow
def test_the_inbox_is_what_the_reference_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    happened = run_until(EVERYTHING, InboxMachine, engine_of("sqlite"), tmp_path, QUICK, SEEDS)
    assert {what for what in EVERYTHING if not happened[what]} == set()


@pytest.mark.slow
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
