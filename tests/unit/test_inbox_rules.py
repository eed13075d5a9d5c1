# SPDX-License-Identifier: Apache-2.0
"""The rules of inboxes: what a reader knows of a log, the merge, the count, what may be posted."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import NOW
from tidings.actions.inbox.audience import SLICE_USERS, distinct_users
from tidings.actions.inbox.posted import delivered_by
from tidings.model import limits
from tidings.model.ids import ulid, ulid_time
from tidings.model.inbox_reading import (
    LogView,
    count_unread,
    first_copy_below,
    fold,
    from_broadcast,
    is_for,
    merged,
)
from tidings.model.notifications import (
    NOTHING_READ,
    Broadcast,
    Copy,
    InboxConfig,
    Posting,
    ReadState,
    check_link,
    check_open_json,
    check_posting,
)
from tidings.model.refusals import Invalid, SchemaVersionConflict, TooLarge
from tidings.model.state_times import broadcast_read_at, copy_read_at

LATER = NOW + limits.DAY_MS
CONFIG = InboxConfig(title="News")


def told(sequence: int, *, expires_at: int = LATER, **more: object) -> Broadcast:
    """Something for everyone."""
    fields: dict[str, object] = {"posted_at": NOW + sequence, "box": b"box", **more}
    return Broadcast(
        tenant="acme",
        inbox="news",
        sequence=sequence,
        kind="broadcast",
        mark=f"m{sequence}",
        expires_at=expires_at,
        **fields,  # type: ignore[arg-type]
    )


def taken_back(sequence: int, target: str, *, expires_at: int = LATER) -> Broadcast:
    """An entry that takes something back."""
    return msgspec.structs.replace(
        told(sequence, expires_at=expires_at), kind="retraction", target=target, box=None
    )


def copy(time: int, *, read_at: int | None = None, **more: object) -> Copy:
    """A copy of something posted at this time."""
    fields: dict[str, object] = {"category": None, "received_at": time, **more}
    return Copy(
        notification_id=ulid(time, bytes(10)),
        expires_at=LATER,
        read_at=read_at,
        **fields,  # type: ignore[arg-type]
    )


def test_a_view_knows_what_was_told_and_what_was_taken_back() -> None:
    view = fold(LogView(), [told(1), told(2), taken_back(3, "b1")], NOW)
    assert (view.head, view.head_at) == (3, NOW + 3)
    assert [(one.sequence, one.box) for one in view.broadcasts] == [(1, None), (2, b"box")]
    assert view.is_retracted("b1")
    assert not view.is_retracted("b2")
    assert view.hides("b1", LATER, NOW)
    assert view.hides("b2", NOW, NOW)
    assert not view.hides("b2", NOW + 1, NOW)
    assert fold(view, [], LATER) is view


def test_a_view_lets_go_of_what_nobody_sees_any_more() -> None:
    entries = [told(1, expires_at=NOW), told(2), taken_back(3, "b1", expires_at=NOW)]
    view = fold(LogView(), entries, NOW - 1)
    view = fold(view, [told(4)], NOW)
    assert [one.sequence for one in view.broadcasts] == [2, 4]
    assert not view.retracted


def test_a_view_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INBOX_LOG_ENTRIES_MAX", 7_000)
    view = LogView()
    for start in range(0, 12_000, 3_000):
        entries = [
            taken_back(start + position, f"b9{start + position}") for position in range(1, 2_001)
        ]
        entries += [told(start + position) for position in range(2_001, 3_001)]
        view = fold(view, entries, NOW)
    assert len(view.broadcasts) == limits.INBOX_BROADCASTS_MAX
    assert len(view.retracted) == limits.INBOX_LOG_ENTRIES_MAX
    assert view.is_retracted("b911000")
    assert not view.is_retracted("b91"), "the oldest go first"
    assert view.head == 12_000


@given(st.lists(st.sampled_from(["told", "back"]), max_size=30), st.integers(1, 5))
def test_it_does_not_matter_in_which_pieces_a_log_is_read(kinds: list[str], size: int) -> None:
    entries = [
        told(position) if kind == "told" else taken_back(position, f"b{position // 2}")
        for position, kind in enumerate(kinds, 1)
    ]
    view = LogView()
    for start in range(0, len(entries), size):
        view = fold(view, entries[start : start + size], NOW)
    assert view == fold(LogView(), entries, NOW)


def test_who_came_later_sees_it_only_if_it_says_so() -> None:
    assert is_for(told(1), NOW + 2)
    assert is_for(told(1, late_joiners=False), NOW + 1)
    assert not is_for(told(1, late_joiners=False), NOW + 2)


def test_when_something_was_read() -> None:
    state = ReadState(before=NOW, announced=2, singly={2: 7, 5: 8})
    assert copy_read_at(copy(NOW + 1, read_at=9), state) == 9
    assert copy_read_at(copy(NOW - 5, received_at=NOW), state) == NOW
    assert copy_read_at(copy(NOW - 5, received_at=NOW + 1), state) is None
    assert broadcast_read_at(told(1), state) == NOW
    assert broadcast_read_at(told(2), state) == 7
    assert broadcast_read_at(told(3), state) is None
    assert broadcast_read_at(told(5), state) == 8


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_pages_of_a_merge_come_one_after_the_other(copied: list[int], posted: list[int]) -> None:
    copies = [copy(NOW + time) for time in copied]
    broadcasts = [told(10 + time, posted_at=NOW + time) for time in posted]
    whole = merged(copies, [from_broadcast(one, NOTHING_READ) for one in broadcasts], NOTHING_READ)
    places = [one.position for one in whole]
    assert places == sorted(places, reverse=True)
    for number, position in enumerate(places):
        below = [one for one in copies if one.notification_id < first_copy_below(position)]
        rest = [one for one in broadcasts if (one.posted_at, one.notification_id) < position]
        assert (
            merged(below, [from_broadcast(one, NOTHING_READ) for one in rest], NOTHING_READ)
            == whole[number + 1 :]
        )


def test_a_count_leaves_out_what_is_read_or_gone() -> None:
    view = fold(LogView(), [told(1, category="a"), told(2), told(3), taken_back(4, "b2")], NOW)
    gone = copy(NOW + 3)
    view = fold(view, [taken_back(5, gone.notification_id)], NOW)
    copies = [copy(NOW, category="a"), copy(NOW + 1, read_at=1), copy(NOW + 2), gone]
    state = ReadState(singly={3: NOW})
    count = count_unread(view, copies, view.broadcasts, state, NOW)
    assert (count.total, count.categories) == (3, {"a": 2})
    assert count_unread(view, copies, view.broadcasts, state, LATER).total == 0


def test_the_time_of_a_name_is_the_time_it_was_made_with() -> None:
    assert ulid_time(ulid(NOW, b"\xff" * 10)) == NOW
    assert first_copy_below((NOW, "b7")) == ulid(NOW + 1, bytes(10))


@pytest.mark.parametrize(
    ("finished", "recipients", "delivered"),
    [
        (set(), 1, 0), ({0}, 1, 1), ({0}, 100, 100), ({0}, 101, 100), ({1}, 101, 1),
        ({0, 1}, 101, 101), ({0, 2}, 250, 150), ({0, 1, 2}, 300, 300),
    ],
)  # fmt: skip
def test_progress_is_what_the_finished_jobs_stand_for(
    finished: set[int], recipients: int, delivered: int
) -> None:
    assert delivered_by(finished, recipients) == delivered


@pytest.mark.attack("E08")
@given(st.text(max_size=40))
def test_no_text_slips_a_script_into_a_link(rest: str) -> None:
    for scheme in ("javascript", "JavaScript", "data", "vbscript", "java\tscript", "http"):
        for link in (f"{scheme}:{rest}", f" {scheme}:{rest}", f"\n{scheme}:{rest}"):
            with pytest.raises(Invalid):
                check_link(link)


def test_an_inbox_decides_on_version_and_category() -> None:
    posting = Posting(users=None, message={"title": "x", "body": ""})
    config = InboxConfig(title="x", schema_version="2", categories=("a",))
    text = check_posting(
        msgspec.structs.replace(posting, schema_version="2", category="a", sender="s"), config
    )
    assert (text.message, text.sender) == (posting.message, "s")
    with pytest.raises(SchemaVersionConflict):
        check_posting(msgspec.structs.replace(posting, schema_version="1"), config)
    with pytest.raises(Invalid):
        check_posting(msgspec.structs.replace(posting, category="b"), config)


def test_json_of_their_own_is_not_nested_without_end() -> None:
    value: object = 1
    for _ in range(limits.OPEN_JSON_DEPTH_MAX - 1):
        value = {"a": [], "b": value}
    check_open_json(value, "")
    with pytest.raises(Invalid):
        check_open_json([value], "")


async def test_the_loop_turns_while_many_users_are_looked_at() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    uids = [f"u{number % 70_000}" for number in range(limits.AUDIENCE_USERS_MAX)]
    assert await distinct_users(uids) == uids[:70_000]
    counting.cancel()
    assert turns >= limits.AUDIENCE_USERS_MAX // SLICE_USERS


async def test_users_are_counted_once() -> None:
    uids = [f"u{number}" for number in range(limits.AUDIENCE_USERS_MAX)]
    assert await distinct_users([*uids, *uids[:9]]) == uids
    with pytest.raises(TooLarge):
        await distinct_users([*uids, "one-more"])
