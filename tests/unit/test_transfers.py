# SPDX-License-Identifier: Apache-2.0
"""Transfers: downloads take turns, and no tenant has all that a process can make."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.support.turns import counted_turns
from tidings.actions.attachments.transfers import Transfers
from tidings.model.attachments import (
    DOWNLOADS_AT_ONCE_MAX,
    UPLOADS_AT_ONCE_MAX,
    USER_DOWNLOADS_AT_ONCE_MAX,
)
from tidings.model.ids import UserKey, user_key
from tidings.model.refusals import RateLimited

Begin = Callable[[UserKey], AbstractContextManager[None]]


async def test_at_most_one_download_goes_on_in_a_turn_of_the_event_loop() -> None:
    transfers, went_on = Transfers(), list[tuple[int, str]]()

    async def download(name: str) -> None:
        for _ in range(3):
            await transfers.turn()
            went_on.append((turns[0], name))

    async with counted_turns() as turns:
        await asyncio.gather(*(download(name) for name in "abc"))
    at = [turn for turn, _ in went_on]
    assert sorted(set(at)) == at
    assert [name for _, name in went_on] == list("abcabcabc")


def begun(begin: Begin, tenant: str, stack: ExitStack) -> int:
    """Begin as many transfers of a tenant as it may have; return their number."""
    for count in range(DOWNLOADS_AT_ONCE_MAX + 1):
        try:
            stack.enter_context(begin(user_key(tenant, f"user{count}")))
        except RateLimited:
            return count
    raise AssertionError("the transfers have no limit")


@pytest.mark.parametrize("name", ["upload", "download"])
def test_a_tenant_leaves_transfers_for_others(name: str) -> None:
    most = {"upload": UPLOADS_AT_ONCE_MAX, "download": DOWNLOADS_AT_ONCE_MAX}[name]
    begin: Begin = getattr(Transfers(), name)
    with ExitStack() as stack:
        assert begun(begin, "greedy", stack) == most * 3 // 4
        assert begun(begin, "other", stack) > most // 8
        with begin(user_key("third", "ann")):
            pass
    with ExitStack() as stack:
        assert begun(begin, "greedy", stack) == most * 3 // 4, "what has ended is not counted"


def test_a_user_has_fewer_transfers_than_the_tenant() -> None:
    transfers, ann = Transfers(), user_key("acme", "ann")
    with ExitStack() as stack:
        for _ in range(USER_DOWNLOADS_AT_ONCE_MAX):
            stack.enter_context(transfers.download(ann))
        with pytest.raises(RateLimited):
            stack.enter_context(transfers.download(ann))
        with transfers.download(user_key("acme", "ben")):
            pass
