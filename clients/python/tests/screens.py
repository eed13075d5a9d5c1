# SPDX-License-Identifier: Apache-2.0
"""What an application shows: built from events alone, and strict about them."""

import asyncio
from collections.abc import Callable

from tests.support.waiting import WAIT_SECONDS, until
from tidings_client import ChatGone, ChatResynced, Client, EntryEvent, Event, Message

EVENTS_SHOWN = 20


class Screen:
    """Everything a client has handed out, by chat."""

    def __init__(self) -> None:
        self.shown: dict[str, list[EntryEvent]] = {}
        self.events: list[Event] = []
        self.repeats = 0
        """Entries that were shown again after a restart."""
        self._changed = asyncio.Event()

    async def follow(self, client: Client) -> None:
        """Show what comes, until the client is closed."""
        async for event in client.events():
            self.show(event)

    def show(self, event: Event) -> None:
        """Show one event. Raises AssertionError if an entry comes twice or out of order."""
        self.events.append(event)
        match event:
            case EntryEvent():
                shown = self.shown.setdefault(event.chat, [])
                if shown:
                    assert event.sequence == shown[-1].sequence + 1, f"{event} after {shown[-1]}"
                shown.append(event)
            case ChatResynced() | ChatGone():
                self.shown.pop(event.chat, None)
            case _:
                pass
        self._changed.set()
        self._changed = asyncio.Event()

    def contents(self, chat: str, sender: str | None = None) -> list[str]:
        """The messages of a chat, perhaps of one sender only."""
        return [
            event.content or ""
            for event in self.shown.get(chat, [])
            if isinstance(event, Message) and sender in (None, event.sender)
        ]

    def last(self, chat: str) -> int:
        """The last entry shown of a chat."""
        shown = self.shown.get(chat)
        return shown[-1].sequence if shown else 0

    async def until(self, holds: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
        """Wait until a condition on this screen holds."""
        await until(
            holds,
            changed=lambda: self._changed,
            describe=lambda: self.events[-EVENTS_SHOWN:],
            seconds=seconds,
        )
