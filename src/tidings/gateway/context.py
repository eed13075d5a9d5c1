# SPDX-License-Identifier: Apache-2.0
"""The dependencies that all connections of a gateway share, and the lease that allows writing."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.reading import CoalescedReceipts
from tidings.actions.identity.caller import Caller
from tidings.actions.rate_limits import RateLimits
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.hub import ClientConnection, Hub
from tidings.model.chats import ChatHead
from tidings.model.ids import UserKey
from tidings.ports.bus import Bus
from tidings.ports.world import Clock
from tidings.tasks import TurnBudget
from tidings.wire.codes import Close


class WriteLease:
    """Lease that allows a process to write to its sockets.

    It ends if the process is paused, or cannot read the revocation feed, for too long.

    By default it never ends.
    """

    def __init__(
        self,
        *,
        pause_seconds_max: float = math.inf,
        blind_seconds_max: float = math.inf,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Start with a valid lease. `now` must advance even while the event loop is blocked."""
        self.is_blind = False
        """Whether revocations cannot be read. If so, no socket is admitted and no message is
        accepted."""
        self.now = now
        self._pause_seconds_max = pause_seconds_max
        self._blind_seconds_max = blind_seconds_max
        self._awake_until = now() + pause_seconds_max
        self._sees_until = now() + blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        self._deferred: dict[Callable[[], None], None] = {}
        """Writes that wait until the revocation feed is read again, in order."""

    @property
    def was_away(self) -> bool:
        """Whether the process was paused for so long that its registrations may have expired."""
        return self.now() > self._awake_until

    @property
    def is_expired(self) -> bool:
        """Whether writing is forbidden."""
        return self.now() > self._until

    def close_code(self) -> Close:
        """Return the code for closing sockets after the lease has ended."""
        return Close.RESTARTING if self.was_away else Close.OVERLOADED

    def defer(self, write: Callable[[], None]) -> None:
        """Call `write` when revocations have been read again.

        A process may be late only because of load. Nothing is written until it has read the feed,
        but its connections are not closed.
        """
        self._deferred[write] = None

    def renew_awake(self) -> None:
        """Record that the process is running now."""
        self._awake_until = self.now() + self._pause_seconds_max
        self._until = min(self._awake_until, self._sees_until)

    def renew_feed(self, at: float) -> None:
        """Record that all revocations up to this time were read, and run the deferred writes."""
        self._sees_until = at + self._blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        deferred, self._deferred = self._deferred, {}
        for write in deferred:
            write()


async def _needs_no_registering(_user: UserKey, _connection: str) -> bool:
    """Accept every connection: in a single process the hub counts the connections of a user."""
    return True


def _needs_no_unregistering(_user: UserKey, _connection: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """Dependencies shared by every connection of this gateway."""

    authenticate: Callable[[str], Awaitable[Caller]]
    chats_of: Callable[[UserKey], Awaitable[list[ChatHead]]]
    send_presence: Callable[[UserKey, ClientConnection], Awaitable[None]]
    """Sends a device that has just become live the presence of the user's peers."""
    verbs: ChatVerbs
    receipts: CoalescedReceipts
    appender: Appender
    bus: Bus
    in_turn: TurnBudget
    """Queue of messages to post."""
    writes: TurnBudget
    """Queue of connections that have frames to write."""
    hub: Hub
    clock: Clock
    epoch: str
    new_connection_id: Callable[[], str]
    jitter_ms: Callable[[int], int]
    """Returns a random number of milliseconds up to a maximum."""
    register: Callable[[UserKey, str], Awaitable[bool]] = _needs_no_registering
    """Registers a connection, so that other processes find it. Returns False if the user has too
    many connections; never raises."""
    unregister: Callable[[UserKey, str], None] = _needs_no_unregistering
    gap_seconds: float = 0.0
    """Time to wait for an entry that another process delivers, before it is read from the log. If
    other entries are late already, the wait is up to twice as long."""
    limits: RateLimits | None = None
    """Rate limits, or None if there are none."""
    write_lease: WriteLease = field(default_factory=WriteLease)
