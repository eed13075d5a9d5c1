# SPDX-License-Identifier: Apache-2.0
"""A search passes by the items of large tenants once, and misses nobody else's."""

from tidings.delivery.due_searches import (
    COOL_DOWN_FACTOR,
    COOL_DOWN_MS_MAX,
    SEARCH_MS,
    SETTLE_MS,
    WHOLE_MS,
    DueSearches,
    Shard,
)

NOW = 1_800_000_000_000
SHARD: Shard = ("message", 3)
OTHER: Shard = ("message", 4)
TOOK_MS = 1_000


def begin(searches: DueSearches, shard: Shard, without: list[str], now: int) -> int | None:
    """Begin a search while no item is paused."""
    return searches.begin(shard, without, now, now)


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    searches = DueSearches()
    assert begin(searches, SHARD, ["a"], NOW) == 0
    searches.end(SHARD, ["a"])
    assert begin(searches, SHARD, ["a"], NOW + SEARCH_MS) == NOW - SETTLE_MS
    assert begin(searches, OTHER, ["a"], NOW + SEARCH_MS) == 0


def test_searches_are_rare() -> None:
    searches = DueSearches()
    assert begin(searches, SHARD, ["a"], NOW) == 0
    assert begin(searches, SHARD, ["a"], NOW + SEARCH_MS - 1) is None


def test_a_search_that_did_not_end_is_done_again() -> None:
    searches = DueSearches()
    assert begin(searches, SHARD, ["a"], NOW) == 0
    assert begin(searches, SHARD, ["a"], NOW + SEARCH_MS) == 0


def test_a_tenant_who_was_passed_by_is_searched_for() -> None:
    searches = DueSearches()
    begin(searches, SHARD, ["a", "b"], NOW)
    searches.end(SHARD, ["a", "b"])
    assert begin(searches, SHARD, ["a"], NOW + SEARCH_MS) == 0


def test_another_tenant_may_be_passed_by_from_now_on() -> None:
    searches = DueSearches()
    begin(searches, SHARD, ["a"], NOW)
    searches.end(SHARD, ["a"])
    assert begin(searches, SHARD, ["a", "b"], NOW + SEARCH_MS) == NOW - SETTLE_MS


def test_everything_is_searched_now_and_then() -> None:
    searches, whole = DueSearches(), []
    for at in range(NOW, NOW + 3 * WHOLE_MS, SEARCH_MS):
        if begin(searches, SHARD, ["a"], at) == 0:
            whole.append(at)
        searches.end(SHARD, ["a"])
    assert whole == [NOW, NOW + WHOLE_MS, NOW + 2 * WHOLE_MS]


def test_a_paused_item_is_searched_for() -> None:
    searches = DueSearches()
    begin(searches, SHARD, ["a"], NOW)
    searches.end(SHARD, ["a"])
    assert searches.begin(SHARD, ["a"], NOW - 7_000, NOW + SEARCH_MS) == NOW - 7_000


def test_after_a_search_that_failed_the_store_has_a_rest() -> None:
    searches = DueSearches()
    assert begin(searches, SHARD, ["a"], NOW) == 0
    searches.stop(SHARD, NOW + TOOK_MS)
    cooled_down_at = NOW + TOOK_MS + COOL_DOWN_FACTOR * TOOK_MS
    assert begin(searches, SHARD, ["a"], cooled_down_at - 1) is None
    assert begin(searches, OTHER, ["a"], cooled_down_at - 1) is None
    assert begin(searches, ("inbox", 3), ["a"], cooled_down_at - 1) == 0
    assert begin(searches, SHARD, ["a"], cooled_down_at) == 0


def test_while_the_store_rests_a_search_goes_on_and_goes_back_later() -> None:
    searches = DueSearches()
    begin(searches, SHARD, ["a", "b"], NOW)
    searches.end(SHARD, ["a", "b"])
    searches.stop(SHARD, NOW + TOOK_MS)
    cooled_down_at = NOW + TOOK_MS + COOL_DOWN_FACTOR * TOOK_MS
    assert begin(searches, SHARD, ["a"], NOW + TOOK_MS) == NOW - SETTLE_MS
    searches.end(SHARD, ["a"])
    searches.stop(SHARD, NOW + 2 * TOOK_MS)
    assert (
        searches.begin(SHARD, ["a"], NOW - 7_000, cooled_down_at - 1) == NOW + TOOK_MS - SETTLE_MS
    )
    searches.end(SHARD, ["a"])
    assert begin(searches, SHARD, ["a"], cooled_down_at + SEARCH_MS) == 0, (
        "b may have earlier items"
    )


def test_after_an_outage_others_do_not_wait_long() -> None:
    searches, outage_ms = DueSearches(), 10 * COOL_DOWN_MS_MAX
    assert begin(searches, SHARD, ["a"], NOW) == 0
    searches.stop(SHARD, NOW + outage_ms)
    assert begin(searches, SHARD, ["a"], NOW + outage_ms + COOL_DOWN_MS_MAX - 1) is None
    assert begin(searches, SHARD, ["a"], NOW + outage_ms + COOL_DOWN_MS_MAX) == 0
