# SPDX-License-Identifier: Apache-2.0
"""What a chat list looks at is bounded, whatever the chats are like."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model import limits
from tidings.model.chats import Receipt
from tidings.model.entries import Head
from tidings.model.ids import UserKey
from tidings.model.unread_counts import unread_of_page
from tidings.stores.sqlite.chat import chat_list
from tidings.stores.sqlite.engine.connections import connect
from tidings.stores.sqlite.engine.schema import migrate

USER = UserKey("acme:ann")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "things.db")
    migrate(opened)
    yield opened
    opened.close()


def plan(db: apsw.Connection, query: str, values: tuple[object, ...]) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values)]


@pytest.mark.attack("S03", "F04", "E17")
@given(
    chats=st.lists(
        st.tuples(st.integers(0, 1_100), st.integers(0, 1_000)), max_size=limits.PAGE_MAX + 1
    )
)
def test_a_page_looks_at_a_bounded_number_of_entries(chats: list[tuple[int, int]]) -> None:
    held = [
        (Head(read + entries, read + entries, read + entries, 1), Receipt(USER, read, read, read))
        for entries, read in chats
    ]
    looks = [
        head.sequence - receipt.read
        for (head, receipt), unread in zip(held, unread_of_page(held), strict=True)
        if unread is None
    ]
    few = [entries for entries in looks if entries <= limits.LISTED_UNREAD_ENTRIES_MIN]
    many = [entries for entries in looks if entries > limits.LISTED_UNREAD_ENTRIES_MIN]
    assert sum(many) <= limits.LIST_UNREAD_ENTRIES_MAX
    assert few == [one for one, _ in chats if 0 < one <= limits.LISTED_UNREAD_ENTRIES_MIN]


@pytest.mark.attack("S03", "E17")
def test_no_list_visits_more_of_a_chat_than_its_ends(db: apsw.Connection) -> None:
    """Each table by its key, and the first members by their index: none is scanned or sorted."""
    steps = plan(db, chat_list._ROWS, (USER, "[]"))
    tables = {"d", "c", "m", "h", "last", "messages", "chat_memberships"}
    found = {step.split()[1] for step in steps if step.startswith("SEARCH")}
    assert found == tables, steps
    assert any("COVERING INDEX chat_memberships_by_joining" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps

    order = plan(db, chat_list._PAGE, (USER, 1, "", 1))
    assert [step for step in order if step.startswith("SEARCH")] == [
        "SEARCH d USING PRIMARY KEY (user_id=?)",
        "SEARCH messages USING PRIMARY KEY (chat_id=?)",
    ]
