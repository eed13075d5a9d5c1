# SPDX-License-Identifier: Apache-2.0
"""What every connection of a gateway shares: the actions it may take and the world around it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tidings.actions.appending import Appender
from tidings.actions.identity import Caller
from tidings.actions.receipts import CoalescedReceipts
from tidings.actions.slices import Slices
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.hub import Hub
from tidings.model.chat_list import Held
from tidings.model.ids import UserKey
from tidings.ports.bus import Bus
from tidings.ports.world import Clock


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a connection turns to."""

    authenticate: Callable[[str], Awaitable[Caller]]
    held: Callable[[UserKey], Awaitable[list[Held]]]
    peers_present: Callable[[UserKey], Awaitable[list[bytes]]]
    """Presence frames for a device that has just become live."""
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
