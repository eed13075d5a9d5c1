# SPDX-License-Identifier: Apache-2.0
"""Receipts at a pace: the first at once, and of those that follow within a second the last."""

import asyncio
from collections.abc import Callable

import msgspec

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import ReceiptMoved


class ReceiptPace:
    """Passes at most one receipt of a user in a chat on per second, whoever moves it how often."""

    def __init__(self, pass_on: Callable[[ReceiptMoved], None]) -> None:
        self._pass_on = pass_on
        self._held_back: dict[tuple[UserKey, ChatId], ReceiptMoved | None] = {}
        """What has come since the last one was passed on, within its second."""
        self._is_closed = False

    def offer(self, event: ReceiptMoved) -> None:
        """Pass it on now or soon; a later one may take its place."""
        key = event.receipt.user, event.chat
        if key not in self._held_back:
            self._go(key, event)
            return
        earlier = self._held_back[key]
        if earlier is not None and earlier.by_reading:
            event = msgspec.structs.replace(event, by_reading=True)
        self._held_back[key] = event

    def close(self) -> None:
        """Pass nothing more on."""
        self._is_closed = True

    def _go(self, key: tuple[UserKey, ChatId], event: ReceiptMoved) -> None:
        self._held_back[key] = None
        asyncio.get_running_loop().call_later(limits.RECEIPT_FRAME_MS / 1_000, self._next, key)
        self._pass_on(event)

    def _next(self, key: tuple[UserKey, ChatId]) -> None:
        event = self._held_back.pop(key)
        if event is not None and not self._is_closed:
            self._go(key, event)
