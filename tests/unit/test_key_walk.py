# SPDX-License-Identifier: Apache-2.0
"""The walk over idempotency keys: bounded steps, round and round, and a second look."""

import apsw
import pytest

from tidings.stores.sqlite import sweeping
from tidings.stores.sqlite.engine.schema import migrate
from tidings.stores.sqlite.sweeping import START, WALKED_PER_ROW, SweepPosition, walk

NOW = 1_000


@pytest.fixture
def db() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    return connection


def keep(db: apsw.Connection, count: int, expires_at: int) -> list[SweepPosition]:
    """So many keys, in the order of the walk."""
    places = [(f"chat{n // 7:03}", f"sender{n % 7}", f"m{n}") for n in range(count)]
    db.executemany(
        "INSERT OR REPLACE INTO idempotency_keys VALUES (?, ?, ?, 1, x'00', ?)",
        [(*place, expires_at) for place in places],
    )
    return sorted(places)


def walk_keys(
    db: apsw.Connection, after: SweepPosition, limit: int
) -> tuple[list[SweepPosition], SweepPosition]:
    key = "chat_id, sender, client_message_id"
    return walk(db, "idempotency_keys", key, after=after, now=NOW, limit=limit)


def left(db: apsw.Connection) -> list[SweepPosition]:
    return list(db.execute("SELECT chat_id, sender, client_message_id FROM idempotency_keys"))


def test_a_step_without_stale_keys_looks_at_a_bounded_number(db: apsw.Connection) -> None:
    places = keep(db, WALKED_PER_ROW * 3 + 10, expires_at=NOW + 1)
    ends = []
    after = START
    for _ in range(4):
        stale, after = walk_keys(db, after, 1)
        assert stale == []
        ends.append(after)

    assert ends == [places[WALKED_PER_ROW * n - 1] for n in (1, 2, 3)] + [START]


def test_a_step_goes_on_where_it_had_found_enough(db: apsw.Connection) -> None:
    places = keep(db, 10, expires_at=NOW)
    first, after = walk_keys(db, START, 4)
    second, after = walk_keys(db, after, 4)
    third, after = walk_keys(db, after, 4)

    assert first + second + third == places
    assert after == START


def test_a_key_claimed_again_since_the_walk_is_kept(db: apsw.Connection) -> None:
    places = keep(db, 3, expires_at=NOW)
    stale, _ = walk_keys(db, START, 10)
    assert stale == places
    db.execute("UPDATE idempotency_keys SET expires_at = ? WHERE sender = 'sender1'", (NOW + 1,))

    assert sweeping._forget(db, stale, NOW, 10) == 2
    assert left(db) == [places[1]]


def test_all_kinds_of_keys_share_the_limit(db: apsw.Connection) -> None:
    keep(db, 3, expires_at=NOW)
    db.executemany(
        "INSERT INTO request_keys VALUES ('acme:ann', ?, x'00', 'chat', ?)",
        [(f"k{n}", NOW) for n in range(5)],
    )
    db.executemany(
        "INSERT INTO post_keys VALUES ('acme', 'news', ?, x'00', NULL, 0, 0, ?)",
        [(f"k{n}", NOW) for n in range(5)],
    )
    stale, _ = walk_keys(db, START, 4)

    assert sweeping._forget(db, stale, NOW, 4) == 4
    assert left(db) == []
    assert db.execute("SELECT count(*) FROM request_keys").get == 4
    assert sweeping._forget(db, [], NOW, 6) == 6
    assert db.execute("SELECT count(*) FROM request_keys").get == 0
    assert db.execute("SELECT count(*) FROM post_keys").get == 3
