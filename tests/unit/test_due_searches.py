# SPDX-License-Identifier: Apache-2.0
"""A search passes by the items of large tenants once, and misses nobody else's."""

from tidings.delivery.due_searches import SEARCH_MS, SETTLE_MS, WHOLE_MS, DueSearches, Shard

NOW = 1_800_000_000_000
SHARD: Shard = ("message", 3)


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    searches = DueSearches()
    assert searches.begin(SHARD, ["a"], NOW) == 0
    searches.end(SHARD, ["a"])
    assert searches.begin(SHARD, ["a"], NOW + SEARCH_MS) == NOW - SETTLE_MS
    assert searches.begin(("message", 4), ["a"], NOW + SEARCH_MS) == 0


def test_searches_are_rare() -> None:
    searches = DueSearches()
    assert searches.begin(SHARD, ["a"], NOW) == 0
    assert searches.begin(SHARD, ["a"], NOW + SEARCH_MS - 1) is None


def test_a_search_that_did_not_end_is_done_again() -> None:
    searches = DueSearches()
    assert searches.begin(SHARD, ["a"], NOW) == 0
    assert searches.begin(SHARD, ["a"], NOW + SEARCH_MS) == 0


def test_a_tenant_who_was_passed_by_is_searched_for() -> None:
    searches = DueSearches()
    searches.begin(SHARD, ["a", "b"], NOW)
    searches.end(SHARD, ["a", "b"])
    assert searches.begin(SHARD, ["a"], NOW + SEARCH_MS) == 0


def test_another_tenant_may_be_passed_by_from_now_on() -> None:
    searches = DueSearches()
    searches.begin(SHARD, ["a"], NOW)
    searches.end(SHARD, ["a"])
    assert searches.begin(SHARD, ["a", "b"], NOW + SEARCH_MS) == NOW - SETTLE_MS


def test_everything_is_searched_now_and_then() -> None:
    searches, whole = DueSearches(), []
    for at in range(NOW, NOW + 3 * WHOLE_MS, SEARCH_MS):
        if searches.begin(SHARD, ["a"], at) == 0:
            whole.append(at)
        searches.end(SHARD, ["a"])
    assert whole == [NOW, NOW + WHOLE_MS, NOW + 2 * WHOLE_MS]
