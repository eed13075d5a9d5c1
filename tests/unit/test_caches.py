# SPDX-License-Identifier: Apache-2.0
"""The cache that evicts the least recently used values."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.caches import LruCache

MOST, SIZE_MAX = 3, 10


def test_the_least_recently_used_value_is_evicted() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 0)
    cache.put("b", 1)
    assert cache.get("a") == 0, "zero is a value like others"
    cache.put("c", 2)
    assert [cache.peek(key) for key in "abc"] == [0, None, 2]
    assert len(cache) == 2


def test_a_peek_is_no_use() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 0)
    cache.put("b", 1)
    assert cache.peek("a") == 0
    cache.put("c", 2)
    assert cache.peek("a") is None


def test_a_value_larger_than_the_cache_stays_alone() -> None:
    cache: LruCache[str, bytes] = LruCache(9, size_of=len, size_max=3)
    cache.put("a", b"1")
    cache.put("b", b"12345")
    assert (cache.peek("a"), cache.peek("b"), cache.size) == (None, b"12345", 5)
    cache.put("c", b"12")
    assert (cache.peek("b"), cache.size) == (None, 2)


def test_a_size_is_taken_when_a_value_is_put() -> None:
    cache: LruCache[str, list[int]] = LruCache(9, size_of=len, size_max=9)
    values = [1, 2]
    cache.put("a", values)
    values.append(3)
    assert cache.size == 2
    assert cache.pop("a") == [1, 2, 3]
    assert (cache.pop("a"), cache.size) == (None, 0)


CALLS = st.lists(
    st.tuples(st.sampled_from(["get", "peek", "put", "pop"]), st.integers(0, 5), st.integers(0, 12))
)


@given(calls=CALLS, is_sized=st.booleans())
def test_it_is_a_list_in_the_order_of_use(
    calls: list[tuple[str, int, int]], is_sized: bool
) -> None:
    """The model is a list of pairs, the most recently used last."""
    sizes = (lambda value: value) if is_sized else None
    cache: LruCache[int, int] = LruCache(MOST, size_of=sizes, size_max=SIZE_MAX)
    model: list[tuple[int, int]] = []
    for call, key, value in calls:
        known = dict(model).get(key)
        rest = [pair for pair in model if pair[0] != key]
        match call:
            case "put":
                cache.put(key, value)
                model = [*rest, (key, value)]
            case "peek":
                assert cache.peek(key) == known
            case "pop":
                assert cache.pop(key) == known
                model = rest
            case _:
                assert cache.get(key) == known
                model = rest if known is None else [*rest, (key, known)]
        while len(model) > 1 and (len(model) > MOST or is_sized * _size(model) > SIZE_MAX):
            model = model[1:]
        assert [(key, cache.peek(key)) for key, _ in model] == model
        assert (len(cache), cache.size) == (len(model), is_sized * _size(model))


def _size(pairs: list[tuple[int, int]]) -> int:
    return sum(value for _, value in pairs)
