# SPDX-License-Identifier: Apache-2.0
"""What every connection of a gateway shares: the actions it may take and the world around it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tidings.actions.appending import Appender
from tidings.actions.identity import Caller
from tidings.actions.rate_limits import RateLimits
from tidings.actions.receipts import CoalescedReceipts
from tidings.actions.slices import Slices
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.hub import Hub
from tidings.gateway.line import Line
from tidings.gateway.vigil import Vigil
from tidings.model.chat_list import Held
from tidings.model.ids import UserKey
from tidings.ports.bus import Bus
from tidings.ports.world import Clock


async def _needs_no_registering(_user: UserKey, _connection: str) -> bool:
    """Where there is one process, the hub knows everybody."""
    return True


def _needs_no_unregistering(_user: UserKey, _connection: str) -> None:
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a connection turns to."""

    authenticate: Callable[[str], Awaitable[Caller]]
    held: Callable[[UserKey], Awaitable[list[Held]]]
    tell_presence: Callable[[UserKey, Line], Awaitable[None]]
    """Tell a device that has just become live who of the user's peers is there."""
    verbs: ChatVerbs
    receipts: CoalescedReceipts
    appender: Appender
    bus: Bus
    in_turn: Slices
    """Sends, each carried out when its turn comes."""
    writes: Slices
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
    vigil: Vigil = field(default_factory=Vigil)
