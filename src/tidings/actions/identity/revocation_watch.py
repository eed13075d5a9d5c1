# SPDX-License-Identifier: Apache-2.0
"""Watching the feed of revocations: whatever stopped counting is known here in seconds."""

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
from tidings.ports.requesters import REVOCATIONS, on_behalf_of
from tidings.ports.sessions import Revocation, Revocations, RevokedKind
from tidings.tasks import Tasks


class RevocationIndex:
    """All that a few revocations put an end to."""

    def __init__(self, revocations: Iterable[Revocation]) -> None:
        self.users: dict[UserKey, int] = {}
        """With the moment up to which what they were given counts no more."""
        self.sessions: set[str] = set()
        self.tenants: set[str] = set()
        self.tenant_keys: set[str] = set()
        self.signing_keys: set[str] = set()
        self.data_keys: set[str] = set()
        """The authors whose keys are being destroyed."""
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
                # A later version may tell of kinds that this one does not know.
                named.add(revocation.subject)

    @property
    def is_wide(self) -> bool:
        """Whether something ended on which the tokens of many users stand."""
        return bool(self.tenants or self.tenant_keys or self.signing_keys)

    def concerns(self, caller: UserCaller) -> bool:
        """Whether the caller's token ended with something other than the user's own tokens."""
        return (
            caller.session in self.sessions
            or caller.key_id in self.signing_keys
            or caller.made_by in self.tenant_keys
            or (bool(self.tenants) and tenant_of(caller.user) in self.tenants)
        )


TICK_SECONDS: Final = 0.1


class LoopLag:
    """Measures by how much timers are late."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.seconds = 0.0
        """The longest delay while it was last measured."""
        self._now = now
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure for as long as this lasts."""
        self.seconds = 0.0
        self._set_timer()
        try:
            yield
        finally:
            self._note()
            if self._timer is not None:
                self._timer.cancel()

    def _set_timer(self) -> None:
        self._due = self._now() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._note()
        self._set_timer()

    def _note(self) -> None:
        """One that is due and has not come yet is late as well."""
        self.seconds = max(self.seconds, self._now() - self._due)


log = logging.getLogger("tidings.identity")

LOOK_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
LATE_SECONDS: Final = 0.5
"""A look during which the event loop was late by so much says nothing about the store."""
LATE_LOOKS_MAX: Final = 3
"""So often a look is repeated for being late itself, before the feed counts as unread."""
BLIND_SECONDS_MAX: Final = float(limits.REVOKED_SECONDS_MAX)
"""So long a process may be unable to read the feed before it believes nothing it remembers."""


class FeedListener(Protocol):
    """Who has to know at any time how well the feed is seen."""

    def saw(self, at: float) -> None:
        """All that was revoked before this moment of the watch's clock has been told."""
        ...

    def went_blind(self, *, was_late: bool) -> None:
        """The feed has not been read for too long; told again with each look that fails.

        If this process was late itself, it looks again at once, and the store may well answer.
        """
        ...


class RevocationWatch:
    """Reads the feed every two seconds, strongly, and tells whoever listens what is new.

    What a process remembers of tokens, tenants and keys counts only as long as `sees` holds. It is
    read off the clock: a process that was stopped knows it before the first look.

    It goes blind only if the store does not answer. A process that was late itself looks again at
    once: until it has, it believes nothing, and closes nobody.
    """

    def __init__(
        self,
        feed: Revocations,
        *,
        now: Callable[[], float] = monotonic,
        look_seconds: float = LOOK_SECONDS,
        blind_seconds_max: float = BLIND_SECONDS_MAX,
    ) -> None:
        self.place = 0
        """How far the feed was read: what was read of the store since it last moved is no older
        than all that was told."""
        self._feed = feed
        self.now = now
        self._look_seconds = look_seconds
        self._blind_seconds_max = blind_seconds_max
        self._seen_at = -math.inf
        self._is_blind = False
        self._lag = LoopLag(now)
        self._looking = asyncio.Lock()
        self._listeners: list[Callable[[Sequence[Revocation]], None]] = []
        self._sights: list[FeedListener] = []
        self._tasks = Tasks("revocations")

    @property
    def sees(self) -> bool:
        """Whether all that was revoked a few seconds ago or earlier has been told."""
        return self.now() <= self._seen_at + self._blind_seconds_max

    def listen(self, revoked: Callable[[Sequence[Revocation]], None]) -> None:
        """Be told what is new, in order."""
        self._listeners.append(revoked)

    def report_to(self, sight: FeedListener) -> None:
        """Tell somebody how well the feed is seen."""
        self._sights.append(sight)

    async def start(self) -> None:
        """Begin at the end of the feed: nothing is remembered yet, nobody is connected.

        Raises:
            StoreUnavailable: The feed cannot be read.
        """
        began = self.now()
        with on_behalf_of(REVOCATIONS):
            self.place = await self._feed.head()
        self._saw(began)
        self._tasks.start(self._run())

    async def close(self) -> None:
        """Watch no more."""
        await self._tasks.close()
        self._seen_at = -math.inf

    async def look(self) -> bool:
        """Read what is new, if that can be done before the time is over; False if it cannot."""
        async with self._looking:
            with on_behalf_of(REVOCATIONS), self._lag.measured():
                return await self._look()

    async def _look(self) -> bool:
        began = self.now()
        left = self._seen_at + self._blind_seconds_max - began
        try:
            # A process that was asleep for long gets the time for one look all the same.
            async with asyncio.timeout(left if left > 0 else self._look_seconds):
                while revocations := await self._feed.after(self.place):
                    self._tell(revocations)
        except (Unavailable, TimeoutError):
            return False
        self._saw(began)
        return True

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            late_looks = 0
            while not await self.look():
                was_late = self._lag.seconds >= LATE_SECONDS and late_looks < LATE_LOOKS_MAX
                late_looks += was_late
                if self.now() - self._seen_at >= self._blind_seconds_max:
                    self._go_blind(was_late=was_late)
                if not was_late:
                    await asyncio.sleep(AGAIN_SECONDS)

    def _tell(self, revocations: Sequence[Revocation]) -> None:
        for revoked in self._listeners:
            revoked(revocations)
        self.place += len(revocations)

    def _saw(self, at: float) -> None:
        self._seen_at = at
        self._is_blind = False
        for sight in self._sights:
            sight.saw(at)

    def _go_blind(self, *, was_late: bool) -> None:
        if was_late:
            late = {"action": "revocations_late", "seconds": round(self._lag.seconds, 1)}
            log.warning("late to read revocations", extra=late)
        elif not self._is_blind:
            log.warning("revocations cannot be read", extra={"action": "revocations_unread"})
            self._is_blind = True
        for sight in self._sights:
            sight.went_blind(was_late=was_late)
