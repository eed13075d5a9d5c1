# SPDX-License-Identifier: Apache-2.0
"""Limits the connections that have not sent their request yet, per address and in total.

Above a limit the oldest connection is closed. An address over its own limit closes its own
connections first: otherwise one address that opens connections and sends nothing would push out
those of everybody else.
"""

import asyncio

Waiting = asyncio.Future[None]
"""Done when the first bytes are there; fails with a TimeoutError if it has to make room."""


class Undecided:
    """Waiting connections, oldest first, in total and per counted address."""

    def __init__(self, most: int, address_most: int) -> None:
        self._most = most
        self._address_most = address_most
        self._all: dict[Waiting, None] = {}
        self._of_address: dict[str, dict[Waiting, None]] = {}

    def enter(self, address: str | None) -> Waiting:
        """Add a connection; `address` is None if it is exempt."""
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
        """Remove a connection that has sent its first bytes or was closed."""
        self._all.pop(waiting, None)
        same = self._of_address.get(address) if address is not None else None
        if address is not None and same is not None:
            same.pop(waiting, None)
            if not same:
                del self._of_address[address]


def _make_room(waiting: dict[Waiting, None]) -> None:
    """Close the oldest connection that still waits; those that are done leave by themselves."""
    for oldest in waiting:
        if not oldest.done():
            oldest.set_exception(TimeoutError())
            return
