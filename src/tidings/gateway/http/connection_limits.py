# SPDX-License-Identifier: Apache-2.0
"""Limits the open connections of the process: in total, per address and per kind.

All limits follow from the number of file descriptors that the process may open. The descriptors are
divided once:

- some for the process itself (files, connections to the engines);
- some for connections that have not sent their request yet;
- a reserve for health checks and requests with the root key, one request per connection;
- the rest, shared by sockets and HTTP. HTTP may use at most half of it. Sockets may use all but an
  eighth (at most 1,024), which is kept for HTTP.

When there is no room for HTTP, a new connection replaces the one that has been idle longest.

When too many connections have not sent their request yet, the oldest of them is closed. If one
address has too many such connections, its own oldest one is closed. Otherwise a single address that
opens connections and sends nothing would displace the connections of all others.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Self

from tidings.model import limits
from tidings.model.addresses import Networks, counted_address, is_trusted

Waiting = asyncio.Future[None]
"""Future of a connection that has not sent its first bytes yet. It is done when they arrive, and
fails with a TimeoutError if the connection must make room for another."""

DESCRIPTORS_UNLIMITED: Final = 1 << 20
"""Assumed number of descriptors if the system sets no limit."""


class Undecided:
    """Tracks the connections that have not sent their first bytes yet, oldest first."""

    def __init__(self, most: int, address_most: int) -> None:
        self._most = most
        self._address_most = address_most
        self._all: dict[Waiting, None] = {}
        self._of_address: dict[str, dict[Waiting, None]] = {}

    def enter(self, address: str | None) -> Waiting:
        """Add a connection; `address` is None if it is exempt from the limit per address."""
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
    """Close the oldest connection that still waits for its first bytes."""
    for oldest in waiting:
        if not oldest.done():
            oldest.set_exception(TimeoutError())
            return


class ConnectionClass(Enum):
    """Kind of connection, each with a limit of its own."""

    HTTP = auto()
    SOCKET = auto()
    RESERVE = auto()


class Slot:
    """An open connection that the limits count; not the slot of a log."""

    __slots__ = ("address", "close", "is_open", "kind")

    def __init__(self, kind: ConnectionClass, address: str | None) -> None:
        self.kind = kind
        self.address = address
        """Address under which the connection is counted; None if it is exempt."""
        self.close: Callable[[], None] = _nothing
        """Closes the connection; set by its protocol."""
        self.is_open = True

    def passed_on(self) -> None:
        """Forget how to close the connection, which another process serves from now on.

        The function would keep the closed transport of this process in memory.
        """
        self.close = _nothing


def _nothing() -> None:
    """Do nothing: the connection has no protocol yet, or is closed."""


class ConnectionLimits:
    """Counts the open connections of this process, and limits their number."""

    def __init__(
        self,
        descriptors: int,
        trusted_proxies: Networks = (),
        *,
        address_max: int = limits.ADDRESS_HTTP_CONNECTIONS_MAX,
    ) -> None:
        room = max(descriptors - limits.OWN_DESCRIPTORS, descriptors // 2)
        self.undecided_max = min(limits.UNDECIDED_CONNECTIONS_MAX, max(1, room // 8))
        self._reserve_max = min(limits.RESERVED_CONNECTIONS_MAX, max(4, room // 32))
        self._shared_max = max(2, room - self.undecided_max - self._reserve_max)
        self._http_max = self._shared_max // 2
        self._sockets_max = self._shared_max - min(
            limits.KEPT_HTTP_CONNECTIONS_MAX, self._shared_max // 8
        )
        self._address_max = max(1, min(address_max, self._http_max // 4))
        self.undecided_of_address_max = min(self._address_max, max(1, self.undecided_max // 4))
        self._trusted = trusted_proxies
        self._open: Counter[ConnectionClass] = Counter()
        self._by_address: Counter[str] = Counter()
        self._idle: dict[str | None, dict[Slot, None]] = {}
        """Idle HTTP connections per address, longest idle first."""
        self._idle_all: dict[Slot, None] = {}
        self._reserve_unused: dict[Slot, None] = {}
        """Connections in the reserve that have not sent their request yet, oldest first."""

    @classmethod
    def of_this_process(cls, trusted_proxies: Networks = ()) -> Self:
        """Return the limits that follow from this process's file descriptors."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_unlimited = soft == resource.RLIM_INFINITY
        descriptors = DESCRIPTORS_UNLIMITED if is_unlimited else soft
        return cls(descriptors, trusted_proxies)

    @property
    def keep_alive_seconds(self) -> int:
        """Seconds that a connection may be idle: fewer when connections are scarce."""
        is_scarce = 4 * self._open[ConnectionClass.HTTP] > 3 * self._http_max or self._is_full
        kept_ms = limits.SCARCE_KEEP_ALIVE_MS if is_scarce else limits.KEEP_ALIVE_MS
        return kept_ms // limits.SECOND_MS

    @property
    def _is_full(self) -> bool:
        return (
            self._open[ConnectionClass.HTTP] + self._open[ConnectionClass.SOCKET]
            >= self._shared_max
        )

    def enter(self, kind: ConnectionClass, peer: str | None) -> Slot | None:
        """Count a new connection and return its `Slot`, or None if there is no room for it."""
        if kind is ConnectionClass.SOCKET:
            return self._enter_socket(peer)
        address = self.address(peer)
        if address is not None and self._by_address[address] >= self._address_max:
            if not self._close_idle(self._idle.get(address)):
                return None
        elif self._open[ConnectionClass.HTTP] < self._http_max and not self._is_full:
            return self._taken(Slot(ConnectionClass.HTTP, address))
        elif not self._close_idle(self._idle_all):
            return self._enter_reserve(address)
        return self._taken(Slot(ConnectionClass.HTTP, address))

    def move_to_sockets(self, slot: Slot) -> bool:
        """Count a connection as a socket from now on; return False if there is no room for it."""
        is_counted = slot.kind is ConnectionClass.SOCKET
        is_full = self._open[ConnectionClass.SOCKET] >= self._sockets_max
        if not is_counted and (is_full or slot.kind is ConnectionClass.RESERVE):
            return False
        # The handshake counts open sockets by the address that a trusted proxy names.
        self.busy(slot)
        self._uncount(slot)
        slot.kind, slot.address = ConnectionClass.SOCKET, None
        self._taken(slot)
        return True

    def leave(self, slot: Slot) -> None:
        """Stop counting a closed connection; repeated calls change nothing."""
        if not slot.is_open:
            return
        slot.is_open, slot.close = False, _nothing
        self.busy(slot)
        self._reserve_unused.pop(slot, None)
        self._uncount(slot)

    def idle(self, slot: Slot) -> None:
        """Mark a connection as idle, so that it may be closed to make room for a new one."""
        if slot.is_open and slot.kind is ConnectionClass.HTTP:
            self._idle_all[slot] = None
            self._idle.setdefault(slot.address, {})[slot] = None

    def busy(self, slot: Slot) -> None:
        """Mark a connection as in use."""
        if slot not in self._idle_all:
            return
        del self._idle_all[slot]
        same_address = self._idle[slot.address]
        del same_address[slot]
        if not same_address:
            del self._idle[slot.address]

    def adopt(self, address: str | None) -> Slot:
        """Count a socket that was admitted before this process started."""
        return self._taken(Slot(ConnectionClass.SOCKET, address))

    def use_reserve(self, slot: Slot) -> None:
        """Keep a connection in the reserve open, because it has sent a health check or the root
        key."""
        self._reserve_unused.pop(slot, None)

    def _enter_socket(self, peer: str | None) -> Slot | None:
        address = self.address(peer)
        is_at_limit = address is not None and self._by_address[address] >= self._address_max
        if is_at_limit and not self._close_idle(self._idle.get(address)):
            return None
        if self._open[ConnectionClass.SOCKET] >= self._sockets_max:
            return None
        if self._is_full and not self._close_idle(self._idle_all):
            return None
        return self._taken(Slot(ConnectionClass.SOCKET, address))

    def _enter_reserve(self, address: str | None) -> Slot | None:
        """Enter the reserve; if it is full, close its oldest connection that has sent no request.

        Therefore a client cannot occupy the reserve with connections that send nothing.
        """
        if self._open[ConnectionClass.RESERVE] >= self._reserve_max:
            if not self._reserve_unused:
                return None
            oldest = next(iter(self._reserve_unused))
            del self._reserve_unused[oldest]
            oldest.close()
        slot = self._taken(Slot(ConnectionClass.RESERVE, address))
        self._reserve_unused[slot] = None
        return slot

    def _close_idle(self, idle: dict[Slot, None] | None) -> bool:
        if not idle:
            return False
        oldest = next(iter(idle))
        self.busy(oldest)
        oldest.close()
        return True

    def address(self, peer: str | None) -> str | None:
        """Return the address under which a connection is counted, or None if it is exempt.

        Trusted proxies are exempt, because they serve many clients. This machine is exempt, because
        it may run a proxy.
        """
        return None if is_trusted(peer, self._trusted) else counted_address(peer, (), ())

    def _taken(self, slot: Slot) -> Slot:
        self._open[slot.kind] += 1
        if slot.address is not None:
            self._by_address[slot.address] += 1
        return slot

    def _uncount(self, slot: Slot) -> None:
        self._open[slot.kind] -= 1
        if slot.address is not None:
            self._by_address[slot.address] -= 1
            if not self._by_address[slot.address]:
                del self._by_address[slot.address]
