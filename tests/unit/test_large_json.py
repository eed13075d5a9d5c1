# SPDX-License-Identifier: Apache-2.0
"""A large body: read once, and looked through for names without building its lists again."""

import asyncio
import json
import tracemalloc
from contextlib import AsyncExitStack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.api.endpoints import LargeBodies
from tidings.api.notifications import post_notification
from tidings.api.requests import check_names, without_plain_lists
from tidings.model import limits
from tidings.model.refusals import Invalid, RateLimited

pytestmark = pytest.mark.attack("S16")

LARGE = bytes(limits.REQUEST_BODY_BYTES_MAX + 1)
TEXTS = st.text(alphabet='[]{},:"\\ a1é\n', max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def emptied(value: object) -> object:
    """The value with nothing in its lists of plain values."""
    if isinstance(value, dict):
        return {name: emptied(inner) for name, inner in value.items()}
    if isinstance(value, list):
        is_plain = not any(isinstance(inner, dict | list) for inner in value)
        return [] if is_plain else [emptied(inner) for inner in value]
    return value


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
@example({'a["b"]': ['x","y":["z"]', "\\"], "c": '["d"]'}, False, None)
@example([[], [[]], [[1, "]"], {}], [True, None, -1.5e300]], True, 1)
def test_all_but_plain_lists_stays(value: object, is_ascii: bool, indent: int | None) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii, indent=indent).encode()
    assert json.loads(without_plain_lists(body)) == emptied(value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":["x","y"],"b":1,"a":["z"]}',
        b'{"l":[["x"],{"a":["[","]"],"\\u0061":"\\"["}]}',
        b'{"a": [ "x" , 1 ] , "a" : null}',
    ],
)
def test_a_name_that_stands_twice_is_seen_around_lists(body: bytes) -> None:
    with pytest.raises(Invalid, match="given twice"):
        check_names(without_plain_lists(body))


def test_looking_at_the_names_takes_next_to_no_memory() -> None:
    users = [f"{number:064d}" for number in range(50_000)]
    body = bytearray(json.dumps({"audience": {"uids": users}, "message": {}}).encode())
    tracemalloc.start()
    try:
        check_names(without_plain_lists(body))  # type: ignore[arg-type]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(body) / 10


class Posts:
    """Requests with large bodies, of one tenant each."""

    def __init__(self) -> None:
        self.bodies = LargeBodies()
        self.decoding: list[str] = []
        self.goes_on = asyncio.Event()

    async def __call__(self, tenant: str) -> None:
        """From the head of the request to its answer."""
        scope = {"headers": [], "path_params": {"tenant": tenant}}
        async with self.bodies.slot(scope, post_notification), self.bodies.turn_to_decode(LARGE):
            self.decoding.append(tenant)
            await self.goes_on.wait()
            self.decoding.remove(tenant)


async def settled() -> None:
    """Let everybody get as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_large_bodies_are_decoded_one_by_one_over_all_tenants() -> None:
    posts = Posts()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(posts(tenant)) for tenant in ("a", "a", "b")]
        await settled()
        assert posts.decoding == ["a"]
        tasks[0].cancel()
        await settled()
        assert len(posts.decoding) == 2, "whoever breaks off lets the next one go on"
        posts.goes_on.set()


async def test_whoever_waits_too_long_to_be_decoded_is_told_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posts = Posts()
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        stack.callback(posts.goes_on.set)
        group.create_task(posts("a"))
        await settled()
        monkeypatch.setattr(limits, "LARGE_BODY_WAIT_MS_MAX", 1)
        with pytest.raises(RateLimited):
            await posts("b")
