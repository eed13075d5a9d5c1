# SPDX-License-Identifier: Apache-2.0
"""Fetching: parts of a log both ways, within the bounds of a frame."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.integration.engines import long_engine as long_engine
from tests.integration.socket_town import friends, post, refusal
from tests.support.canary import canary
from tests.support.client_socket import Frame
from tests.support.device import Device
from tests.support.people import Town

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 121
PAGE_BYTES_MAX = 48 * 1_024


class Reader:
    """A device and a chat with a log of known length."""

    def __init__(self, device: Device, chat: str) -> None:
        self.device = device
        self.chat = chat

    async def page(self, **bounds: int) -> Frame:
        return await self.device.ask({"op": "fetch", "chat": self.chat, **bounds})


def sequences(page: Frame) -> list[int]:
    return [entry["sequence"] for entry in page["entries"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(town: Town) -> AsyncIterator[Reader]:
    chat, (ann, _) = await friends(town, "ann", "bob")
    async with ann.device() as device:
        await post(device, chat, HEAD - 1)
        yield Reader(device, chat)


@pytest.mark.parametrize(
    ("bounds", "found", "more"),
    [
        ({"after": 0}, range(1, 51), True),
        ({"after": 0, "limit": 100}, range(1, 101), True),
        ({"after": 21, "limit": 100}, range(22, 122), False),
        ({"after": 20, "limit": 100}, range(21, 121), True),
        ({"after": 120}, range(121, 122), False),
        ({"after": 121}, range(0), False),
        ({"after": 2**53 - 1}, range(0), False),
        ({"before": 122}, range(72, 122), True),
        ({"before": 122, "limit": 1}, range(121, 122), True),
        ({"before": 101, "limit": 100}, range(1, 101), False),
        ({"before": 102, "limit": 100}, range(2, 102), True),
        ({"before": 2}, range(1, 2), False),
        ({"before": 1}, range(0), False),
        ({"before": 0}, range(0), False),
        ({"before": 2**53 - 1, "limit": 2}, range(120, 122), True),
    ],
)
async def test_a_page_goes_up_or_down(
    reader: Reader, bounds: dict[str, int], found: range, more: bool
) -> None:
    page = await reader.page(**bounds)
    assert (sequences(page), page["more"]) == (list(found), more)
    assert {"op": "page", "chat": reader.chat, "head": HEAD}.items() <= page.items()


async def test_entries_of_a_page_are_those_of_the_stream(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with bob.device() as device:
        await ann.send(chat, canary("x"))
        live = await device.frame("entry", kind="message")
        page = await device.ask({"op": "fetch", "chat": chat, "after": 1})
    assert page["entries"] == [{name: live[name] for name in live if name != "op"}]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "request.invalid"),
        ({"after": 1, "before": 5}, "request.invalid"),
        ({"after": 1, "limit": 0}, "request.invalid"),
        ({"after": 1, "limit": 101}, "request.invalid"),
        ({"after": -1}, "request.invalid"),
        ({"before": "5"}, "request.invalid"),
        ({"after": 2**53}, "request.invalid"),
    ],
)
async def test_what_is_no_page_is_refused(
    reader: Reader, fields: dict[str, Any], code: str
) -> None:
    refused = await refusal(reader.device, {"op": "fetch", "chat": reader.chat, **fields})
    assert (refused["code"], refused["retryable"]) == (code, False)
    await reader.page(after=0)


async def test_a_page_is_cut_where_a_frame_is_full(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    escaped = canary("\u0001" * 4_000)
    async with ann.device() as writer, bob.device() as device:
        for _ in range(12):
            await writer.send(chat, escaped)
        gathered: list[int] = []
        page: Frame = {"more": True}
        while page["more"]:
            after = gathered[-1] if gathered else 0
            page = await device.ask({"op": "fetch", "chat": chat, "after": after, "limit": 100})
            size = sum(len(msgspec.json.encode(entry)) for entry in page["entries"])
            assert 0 < size <= PAGE_BYTES_MAX
            gathered += sequences(page)
        assert gathered == list(range(1, 14))

        page = await device.ask({"op": "fetch", "chat": chat, "before": 14, "limit": 100})
        assert (sequences(page), page["more"]) == ([12, 13], True), "the newest that fit"
