# SPDX-License-Identifier: Apache-2.0
"""Watch the revocation feed, so that every process knows of a revocation within seconds.

Also contains an index for a batch of revocations, and a measurement of the event loop's lag.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from tidings.actions.identity.caller import UserCaller
from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of
from tidings.model.refusals import Unavailable
from tidings.ports.sessions import Revocation, Revocations, RevokedKind
from tidings.ports.store import REVOCATIONS, on_behalf_of
from tidings.tasks import Tasks

log = logging.getLogger("tidings.identity")

LOOK_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
LATE_SECONDS: Final = 0.5
"""If the event loop lags by this time or more, a failed read may be the fault of this process, not
of the store."""
LATE_LOOKS_MAX: Final = 3
"""Maximum number of retries after reads that failed while the event loop lagged. After that, the
store is considered the cause."""
BLIND_SECONDS_MAX: Final = float(limits.REVOKED_SECONDS_MAX)
"""Time without a read of the revocation feed after which a process no longer trusts its caches."""
TICK_SECONDS: Final = 0.1
"""Interval of the timer that measures the lag of the event loop."""


class RevocationIndex:
    """Finds out whether a batch of revocations affects a credential."""

    def __init__(self, revocations: Iterable[Revocation]) -> None:
        self.users: dict[UserKey, int] = {}
        """The revoked users, each with a time; credentials issued up to that time are revoked."""
        self.sessions: set[str] = set()
        self.tenants: set[str] = set()
        self.tenant_keys: set[str] = set()
        self.signing_keys: set[str] = set()
        self.data_keys: set[str] = set()
        """Authors whose data keys are being destroyed."""
        subjects: dict[RevokedKind, set[str]] = {
            "session": self.sessions,
            "tenant": self.tenants,
            "tenant_key": self.tenant_keys,
            "signing_key": self.signing_keys,
            "data_key": self.data_keys,
        }
        for revocation in revocations:
            if revocation.kind == "user":
                user = UserKey(revocation.subject)
                self.users[user] = max(revocation.at, self.users.get(user, 0))
            elif (named := subjects.get(revocation.kind)) is not None:
                # Unknown kinds, from a later version, are skipped.
                named.add(revocation.subject)

    @property
    def is_wide(self) -> bool:
        """Return True if the batch may affect the tokens of many users."""
        return bool(self.tenants or self.tenant_keys or self.signing_keys)

    def concerns(self, caller: UserCaller) -> bool:
        """Return True if the caller's session, tenant, tenant key or signing key was revoked."""
        return (
            caller.session in self.sessions
            or caller.key_id in self.signing_keys
            or caller.made_by in self.tenant_keys
            or (bool(self.tenants) and tenant_of(caller.user) in self.tenants)
        )


class LoopLag:
    """Measures the lag of the event loop, which is how late timers fire."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.seconds = 0.0
        """The longest delay in the last measurement."""
        self._now = now
        self._due = 0.0
        self._timer: asyncio.TimerHandle

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the lag while the `with` block runs."""
        self.seconds = 0.0
        self._timer = self._next_tick()
        try:
            yield
        finally:
            self._note()
            self._timer.cancel()

    def _next_tick(self) -> asyncio.TimerHandle:
        self._due = self._now() + TICK_SECONDS
        return asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._note()
        self._timer = self._next_tick()

    def _note(self) -> None:
        # Also called at the end, because a timer that is due and has not fired is late, too.
        self.seconds = max(self.seconds, self._now() - self._due)


class FeedListener(Protocol):
    """Listener for the health of the revocation feed."""

    def saw(self, at: float) -> None:
        """React to a successful read of the revocation feed.

        Every revocation before the time `at`, on the watch's clock, was reported.
        """
        ...

    def went_blind(self, *, was_late: bool) -> None:
        """React to the fact that the revocation feed could not be read for too long.

        This is called again after each read that fails. `was_late` is True if the cause may be a
        delay in this process instead of the store. The watch then reads again at once.
        """
        ...


class RevocationWatch:
    """Reads the revocation feed every two seconds, and reports revocations to listeners.

    Cached tokens, tenants and keys may be used only while `sees` is true. As `sees` depends on the
    clock, a process that was paused distrusts its caches even before its next read.

    If the feed could not be read for too long, listeners learn the cause: the store does not
    answer, or this process itself was delayed (`was_late`). A delayed process reads again at once;
    until then it uses no cache, but closes no connection.
    """

    def __init__(
        self,
        feed: Revocations,
        *,
        now: Callable[[], float] = monotonic,
        look_seconds: float = LOOK_SECONDS,
        blind_seconds_max: float = BLIND_SECONDS_MAX,
    ) -> None:
        self.position = 0
        """Position in the feed. Data that was read from the store after the position last changed
        takes every reported revocation into account."""
        self._feed = feed
        self.now = now
        self._look_seconds = look_seconds
        self._blind_seconds_max = blind_seconds_max
        self.sees_until = -math.inf
        """Time, on the clock `now`, until which `sees` stays true without another read."""
        self._is_blind = False
        self._lag = LoopLag(now)
        self._looking = asyncio.Lock()
        self._listeners: list[Callable[[Sequence[Revocation]], None]] = []
        self._health_listeners: list[FeedListener] = []
        self._tasks = Tasks("revocations")

    @property
    def sees(self) -> bool:
        """Return True if every revocation older than a few seconds was reported to the
        listeners."""
        return self.now() <= self.sees_until

    def listen(self, revoked: Callable[[Sequence[Revocation]], None]) -> None:
        """Call `revoked` with each batch of new revocations, in order."""
        self._listeners.append(revoked)

    def report_to(self, listener: FeedListener) -> None:
        """Report the health of the revocation feed to a listener."""
        self._health_listeners.append(listener)

    async def start(self) -> None:
        """Start to read the revocation feed, from its end on, because nothing is cached yet and
        nobody is connected.

        Raises:
            StoreUnavailable: The feed cannot be read.
        """
        async with self._looking:
            began = self.now()
            with on_behalf_of(REVOCATIONS):
                self.position = await self._feed.head()
            self._saw(began)
        self._tasks.repeat(self._run)

    async def close(self) -> None:
        """Stop watching."""
        await self._tasks.close()
        self.sees_until = -math.inf

    async def look(self) -> bool:
        """Read new revocations and report them to the listeners; return False if this fails."""
        async with self._looking:
            with on_behalf_of(REVOCATIONS), self._lag.measured():
                return await self._look()

    async def _look(self) -> bool:
        began = self.now()
        left = self.sees_until - began
        try:
            # A process that was paused for a long time still gets the time for one read.
            async with asyncio.timeout(left if left > 0 else LOOK_SECONDS):
                while revocations := await self._feed.after(self.position):
                    self._report(revocations)
            self._saw(began)
        except (Unavailable, TimeoutError):
            return False
        except Exception:
            # A listener failed, so the revocation is treated as unread. If this lasts, the process
            # stops trusting its caches, as it does when the feed cannot be read.
            log.exception("revocations were not reported", extra={"action": "revocations_failed"})
            return False
        return True

    async def _run(self) -> None:
        while True:
            due = self.now() + self._look_seconds
            await asyncio.sleep(self._look_seconds)
            paused, late_looks = self.now() - due, 0
            while not await self.look():
                # The first look has less time if the process was paused before it.
                late_seconds, paused = max(self._lag.seconds, paused), 0.0
                was_late = late_seconds >= LATE_SECONDS and late_looks < LATE_LOOKS_MAX
                late_looks += was_late
                if self.now() >= self.sees_until:
                    self._go_blind(late_seconds if was_late else 0.0)
                if not was_late:
                    await asyncio.sleep(AGAIN_SECONDS)

    def _report(self, revocations: Sequence[Revocation]) -> None:
        for revoked in self._listeners:
            revoked(revocations)
        self.position += len(revocations)

    def _saw(self, at: float) -> None:
        self.sees_until = at + self._blind_seconds_max
        self._is_blind = False
        for listener in self._health_listeners:
            listener.saw(at)

    def _go_blind(self, late_seconds: float) -> None:
        was_late = late_seconds > 0
        if was_late:
            late = {"action": "revocations_late", "seconds": round(late_seconds, 1)}
            log.warning("this process was late to read revocations", extra=late)
        elif not self._is_blind:
            log.warning("revocations cannot be read", extra={"action": "revocations_unread"})
            self._is_blind = True
        for listener in self._health_listeners:
            listener.went_blind(was_late=was_late)
