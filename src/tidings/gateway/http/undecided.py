# SPDX-License-Identifier: Apache-2.0
"""Connections that have yet to say what they want: few of one address, and only so many in all.

Where there are too many the oldest has to go. Those of one address make room for each other first:
otherwise one address that opens connections and says nothing would push out everybody else's.
"""

import asyncio

Waiting = asyncio.Future[None]
"""Done when something was said; fails with a TimeoutError if it has to make room."""


class Undecided:
    """Who waits, oldest first, in all and of each address that is counted."""

    def __init__(self, most: int, address_most: int) -> None:
        self._most = most
        self._address_most = address_most
        self._all: dict[Waiting, None] = {}
        self._of_address: dict[str, dict[Waiting, None]] = {}

    def enter(self, address: str | None) -> Waiting:
        """One more, of an address or of nobody in particular."""
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._all[waiting] = None
        if address is not None:
            same = self._of_address.setdefault(address, {})
            same[waiting] = None
            if len(same) > self._address_most:
                _make_room(same)
        if len(self._all) > self._most:
            _make_room(self._all)
        return waiting

    def leave(self, waiting: Waiting, address: str | None) -> None:
        """It has said something, or is gone."""
        self._all.pop(waiting, None)
        same = self._of_address.get(address) if address is not None else None
        if address is not None and same is not None:
            same.pop(waiting, None)
            if not same:
                del self._of_address[address]


def _make_room(waiting: dict[Waiting, None]) -> None:
    """Send the oldest away who still waits; whoever has spoken or was sent away is leaving."""
    for oldest in waiting:
        if not oldest.done():
            oldest.set_exception(TimeoutError())
            return
