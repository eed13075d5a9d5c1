# SPDX-License-Identifier: Apache-2.0
"""The dependencies, rate limits and write lease that all connections of a gateway share."""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.caller import Caller
from tidings.actions.rate_limits import RateLimits, sends_of
from tidings.actions.verbs import ChatVerbs
from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.hub import Hub
from tidings.gateway.journal import DeliveryJournal
from tidings.model import limits
from tidings.model.addresses import Networks, counted_address
from tidings.model.chats import ChatHead
from tidings.model.ids import UserKey
from tidings.model.refusals import RateLimited
from tidings.ports.bus import Bus
from tidings.ports.sessions import Bucket
from tidings.ports.world import Clock
from tidings.tasks import TurnBudget
from tidings.wire.codes import Close
from tidings.wire.frames import Hello


class Admission:
    """Limits new sockets per address. A socket is counted from the moment it opens."""

    def __init__(
        self,
        jitter_ms: Callable[[int], int],
        rate_limits: RateLimits | None = None,
        trusted_proxies: Networks = (),
    ) -> None:
        """Set up admission. Without rate limits every socket is admitted."""
        self._jitter_ms = jitter_ms
        self._limits = rate_limits
        self._trusted = trusted_proxies
        self._open: Counter[str] = Counter()
        """Number of open sockets per address."""

    def address(self, peer: str | None, forwarded: Sequence[str]) -> str | None:
        """Return the address under which a client is counted, or None if it is exempt."""
        return counted_address(peer, forwarded, self._trusted)

    def wait_seconds(self, address: str | None) -> int:
        """Count an attempt to open a socket; return 0 if it is admitted, else the seconds to wait.

        The wait is random, because clients that are refused together would otherwise return
        together.
        """
        if self._limits is None:
            return 0
        if address is not None and self._open[address] >= limits.ADDRESS_SOCKETS_MAX:
            wait_ms = limits.HELLO_MS_MAX
        else:
            wait_ms = self._limits.handshake(address)
        if not wait_ms:
            return 0
        return max(1, math.ceil(self._jitter_ms(wait_ms) / limits.SECOND_MS))

    def opened(self, address: str | None) -> None:
        """Count an opened socket."""
        if address is not None:
            self._open[address] += 1

    def closed(self, address: str | None) -> None:
        """Stop counting a closed socket."""
        if address is None:
            return
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class ConnectionCharges:
    """Applies rate limits to one connection, and decides when it must be closed."""

    def __init__(self, rate_limits: RateLimits | None) -> None:
        self._limits = rate_limits
        self._sends: Bucket | None = None
        """Token bucket for the user's messages; None before the first message."""
        self._sends_refused = 0
        """Number of messages refused in a row."""
        self._reads_refused = 0
        """Number of reads refused in a row. Accepted messages do not reset it."""

    @property
    def is_leaving(self) -> bool:
        """Whether the connection must be closed, because too many requests in a row were
        refused."""
        return (
            self._sends_refused >= limits.SENDS_REFUSED_MAX
            or self._reads_refused >= limits.SENDS_REFUSED_MAX
        )

    def send(self, user: UserKey) -> int:
        """Count a message; return 0 if it is accepted, else the milliseconds to wait."""
        if self._limits is None:
            return 0
        if self._sends is None:
            self._sends = sends_of(user)
        wait_ms = limits.SECOND_MS if self.is_leaving else self._limits.send(self._sends)
        self._sends_refused = self._sends_refused + 1 if wait_ms else 0
        return wait_ms

    async def read(self, user: UserKey, tokens: int = 1) -> None:
        """Charge the cost of a read to the token bucket for the user's requests.

        Raises:
            RateLimited: The bucket has fewer tokens than the read costs, or the connection is being
                closed.
        """
        if self._limits is None:
            return
        wait_ms = limits.SECOND_MS
        if not self.is_leaving:
            wait_ms = await self._limits.read(user, tokens)
        self._reads_refused = self._reads_refused + 1 if wait_ms else 0
        if wait_ms:
            raise RateLimited(retry_after_ms=wait_ms)


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
        self.until = min(self._awake_until, self._sees_until)
        """When the lease ends, by `now`."""
        self._deferred: dict[Callable[[], None], None] = {}
        """Writes that wait until the revocation feed is read again, in order."""

    @property
    def was_away(self) -> bool:
        """Whether the process was paused for so long that its registrations may have expired."""
        return self.now() > self._awake_until

    @property
    def is_expired(self) -> bool:
        """Whether the lease has ended, so that nothing may be written to sockets."""
        return self.now() > self.until

    def close_code(self) -> Close:
        """Return the code for closing sockets after the lease has ended."""
        return Close.RESTARTING if self.was_away else Close.OVERLOADED

    def defer(self, write: Callable[[], None]) -> None:
        """Call `write` after the revocation feed has been read again.

        Until then nothing is written. The connections stay open, because the process may be late
        only because of load.
        """
        self._deferred[write] = None

    def renew_awake(self) -> None:
        """Record that the process is running now."""
        self._awake_until = self.now() + self._pause_seconds_max
        self.until = min(self._awake_until, self._sees_until)

    def renew_feed(self, at: float) -> None:
        """Record that all revocations up to this time were read, and run the deferred writes."""
        self._sees_until = at + self._blind_seconds_max
        self.until = min(self._awake_until, self._sees_until)
        deferred, self._deferred = self._deferred, {}
        for write in deferred:
            write()


async def _needs_no_registering(
    _user: UserKey, _connection: str, _instead_of: str | None = None
) -> bool:
    """Accept every connection, because in a single process the hub limits them per user."""
    return True


async def _tells_no_erasures(_connection: ClientConnection, _hello: Hello) -> None:
    """Do nothing: the default of a gateway that sends no erasures."""


def _nobody_notes(_connection: ClientConnection) -> None:
    """Do nothing, because a single process knows its connections."""


def _needs_no_unregistering(_user: UserKey, _connection: str) -> None:
    """Do nothing, because a single process registers no connections."""


async def _greets_no_inbox(_user: UserKey, _connection: ClientConnection, _hello: Hello) -> None:
    """Do nothing: the default of a gateway that sends no counts of inboxes."""


async def _blocks_nobody(_user: UserKey) -> Collection[str]:
    """Return no ids: the default of a gateway without blocks."""
    return ()


class GatewayContext(msgspec.Struct, frozen=True):
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
    """The connections whose sockets are in this process; an owner with fronts has none."""
    journal: DeliveryJournal
    refusals: RefusalJournal
    clock: Clock
    epoch: str
    new_connection_id: Callable[[], str]
    jitter_ms: Callable[[int], int]
    """Returns a random number of milliseconds up to a maximum."""
    register: Callable[[UserKey, str, str | None], Awaitable[bool]] = _needs_no_registering
    """Registers a connection, so that other processes find it. The last argument is a connection
    that gives up its place to the new one, or None. Returns False if the user has too many
    connections; never raises."""
    unregister: Callable[[UserKey, str], None] = _needs_no_unregistering
    admitted: Callable[[ClientConnection], None] = _nobody_notes
    """Called when a client is identified, before it gets anything."""
    blocked_of: Callable[[UserKey], Awaitable[Collection[str]]] = _blocks_nobody
    """Returns the ids of the users whom a user blocks."""
    tell_erasures: Callable[[ClientConnection, Hello], Awaitable[None]] = _tells_no_erasures
    """Sends a device the erasures since its last connection."""
    greet_inboxes: Callable[[UserKey, ClientConnection, Hello], Awaitable[None]] = _greets_no_inbox
    """Sends a device the counts of the inboxes that it names in hello."""
    gap_seconds: float = 0.0
    """Time to wait for an entry that another process delivers, before it is read from the log. If
    other entries are late already, the wait is up to twice as long."""
    limits: RateLimits | None = None
    """Rate limits, or None if there are none."""
    write_lease: WriteLease = msgspec.field(default_factory=WriteLease)
