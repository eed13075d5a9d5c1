# SPDX-License-Identifier: Apache-2.0
"""What every connection of a gateway shares: the actions it may take and the world around it."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.receipts import CoalescedReceipts
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.rate_limits import RateLimits
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.hub import Hub
from tidings.model.chats import HeldChat
from tidings.model.ids import UserKey
from tidings.ports.bus import Bus
from tidings.ports.world import Clock
from tidings.tasks import TurnBudget
from tidings.wire.codes import Close


class WriteLease:
    """Two times by which something has to be heard of again; by default there are none."""

    def __init__(
        self,
        *,
        pause_seconds_max: float = math.inf,
        blind_seconds_max: float = math.inf,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """The clock is asked for each time: a loop's own goes on only when the loop does."""
        self.is_blind = False
        """Whether revocations cannot be read: no new socket is let in, and nothing can be sent."""
        self.now = now
        self._pause_seconds_max = pause_seconds_max
        self._blind_seconds_max = blind_seconds_max
        self._awake_until = now() + pause_seconds_max
        self._sees_until = now() + blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        self._held: dict[Callable[[], None], None] = {}
        """What waits for the next look, in order."""

    @property
    def was_away(self) -> bool:
        """Whether the process did not run for longer than it is remembered elsewhere."""
        return self.now() > self._awake_until

    @property
    def is_expired(self) -> bool:
        """Whether nothing more may be written."""
        return self.now() > self._until

    def close_code(self) -> Close:
        """What sockets are closed with once it is over."""
        return Close.RESTARTING if self.was_away else Close.OVERLOADED

    def hold(self, write: Callable[[], None]) -> None:
        """Write later, once revocations were read again.

        Load alone may make a process late. Nothing is written until it has looked, and who is
        still allowed to be here is not sent away for it.
        """
        self._held[write] = None

    def renew_awake(self) -> None:
        """The process is awake."""
        self._awake_until = self.now() + self._pause_seconds_max
        self._until = min(self._awake_until, self._sees_until)

    def renew_feed(self, at: float) -> None:
        """It has read all revocations up to this moment of its clock."""
        self._sees_until = at + self._blind_seconds_max
        self._until = min(self._awake_until, self._sees_until)
        held, self._held = self._held, {}
        for write in held:
            write()


async def _needs_no_registering(_user: UserKey, _connection: str) -> bool:
    """Where there is one process, the hub knows everybody."""
    return True


def _needs_no_unregistering(_user: UserKey, _connection: str) -> None:
    """Likewise."""


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """Where a connection turns to."""

    authenticate: Callable[[str], Awaitable[Caller]]
    held: Callable[[UserKey], Awaitable[list[HeldChat]]]
    send_presence: Callable[[UserKey, ClientConnection], Awaitable[None]]
    """Tell a device that has just become live who of the user's peers is there."""
    verbs: ChatVerbs
    receipts: CoalescedReceipts
    appender: Appender
    bus: Bus
    in_turn: TurnBudget
    """Sends, each carried out when its turn comes."""
    writes: TurnBudget
    """Connections that have something to write."""
    hub: Hub
    clock: Clock
    epoch: str
    new_connection_id: Callable[[], str]
    jitter_ms: Callable[[int], int]
    """A random number of milliseconds up to a maximum."""
    register: Callable[[UserKey, str], Awaitable[bool]] = _needs_no_registering
    """Have other processes find a connection; False if the user has too many. Never fails."""
    unregister: Callable[[UserKey, str], None] = _needs_no_unregistering
    gap_seconds: float = 0.0
    """How long an entry that another process delivers may be late before the log is read; if
    others are late already when it is missed, up to twice as long."""
    limits: RateLimits | None = None
    """None: nothing is counted."""
    write_lease: WriteLease = field(default_factory=WriteLease)
