# SPDX-License-Identifier: Apache-2.0
"""Sends devices the authors whose content was erased, so that they drop their copies.

A device sends its last known position in the revocation feed, and gets all later erasures of its
tenant. A frame names an author by a keyed digest, because a device must not learn the ids of
strangers. With the digest, a device can recognise only authors whose messages it has.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from weakref import WeakValueDictionary

from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.caches import LruCache
from tidings.gateway.client_connection import ClientConnection, ConnectedUsers
from tidings.model import limits
from tidings.model.ids import UserKey, rfc3339, tenant_of, user_id
from tidings.model.refusals import StoreUnavailable
from tidings.ports.sessions import Erasure, Revocation, Revocations
from tidings.wire.frames import AllErased, ErasedAuthor, ErasedFrame, Hello, author_digest, encode

SALT_BYTES: Final = 16
TENANTS_MAX: Final = 1_000
"""Number of tenants whose erasures are cached."""

Told = tuple[int, ErasedAuthor]
"""The position of an erasure in the revocation feed, and the erased author as frames name them."""


class RecentErasures:
    """Caches the newest erasures of one tenant; a `place` is a position in the revocation feed."""

    def __init__(self, after: int, told: Iterable[Told]) -> None:
        self._after = after
        """All erasures after this position are contained."""
        self._told = list(told)
        self._trim()

    def __len__(self) -> int:
        return len(self._told)

    def reaches(self, place: int) -> bool:
        """Return True if `since` can answer for this position without a read of the store."""
        return place >= self._after or self._is_full

    def since(self, place: int) -> list[Told] | None:
        """Return the erasures after a position; None if they are too many."""
        if place < self._after:
            return None
        return self._told[bisect_right(self._told, place, key=lambda one: one[0]) :]

    def add(self, told: Iterable[Told]) -> None:
        """Add new erasures from the revocation feed; skip those that were already read from the
        store."""
        last = self._told[-1][0] if self._told else self._after
        self._told += [one for one in told if one[0] > last]
        self._trim()

    @property
    def _is_full(self) -> bool:
        return len(self._told) == limits.ERASURES_MAX

    def _trim(self) -> None:
        if excess := max(0, len(self._told) - limits.ERASURES_MAX):
            self._after = self._told[excess - 1][0]
            del self._told[:excess]


class ErasureFrames:
    """Sends `erased` frames: at hello from the store, afterwards from the revocation feed."""

    def __init__(
        self,
        hub: ConnectedUsers,
        watch: RevocationWatch,
        feed: Revocations,
        epoch: str,
        salt: bytes,
    ) -> None:
        """Start to listen to the revocation feed. `salt` is the key for the digests of authors."""
        self._hub = hub
        self._watch = watch
        self._feed = feed
        self._epoch = epoch
        self._salt = salt
        self._recent: LruCache[str, RecentErasures] = LruCache(
            TENANTS_MAX, name="erasures", size_of=len, size_max=limits.ERASURES_CACHED_MAX
        )
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        watch.listen(self.revoked)

    async def greet(self, connection: ClientConnection, hello: Hello) -> None:
        """Send a device the erasures since the position in its hello, if hello has one.

        Raises:
            StoreUnavailable: The erasures cannot be read.
        """
        user = connection.conversation.user
        if hello.erasures is None or user is None:
            return
        told = await self._since(tenant_of(user), hello.erasures, hello.epoch)
        # Do not await from here on: the device would miss an erasure that arrives meanwhile.
        connection.conversation.follows_erasures = True
        if told is None:
            connection.send(encode(AllErased(self._watch.position)))
            return
        for frame in self._frames(told, hello.erasures):
            connection.send(frame)

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Send new erasures in the revocation feed to all devices that asked for erasures.

        Unread totals of other devices change too, because erased messages are not unread.
        """
        news: dict[str, list[Told]] = {}
        for place, one in enumerate(revocations, self._watch.position + 1):
            if one.kind == "author":
                erasure = Erasure(place, UserKey(one.subject), one.at)
                news.setdefault(tenant_of(erasure.author), []).append(self._told(erasure))
        for tenant, told in news.items():
            if (recent := self._recent.peek(tenant)) is not None:
                recent.add(told)
                self._recent.put(tenant, recent)
            self._send(tenant, list(self._frames(told, self._watch.position)))

    def _send(self, tenant: str, frames: Sequence[bytes]) -> None:
        for user in self._hub.of_tenant(tenant):
            for connection in self._hub.of(user):
                if connection.conversation.follows_erasures:
                    for frame in frames:
                        connection.send(frame)
                elif connection.conversation.has_totals:
                    connection.hint(frames[-1])

    async def _since(self, tenant: str, place: int, epoch: str | None) -> list[Told] | None:
        """Return a tenant's erasures after a position of the revocation feed.

        Returns None if there are too many, or if the position is from another epoch or beyond the
        feed's end.
        """
        if epoch not in (None, self._epoch):
            return None
        # Another gateway may have read more of the feed.
        if place > self._watch.position and not await self._watch.look():
            raise StoreUnavailable("revocations cannot be read")
        if place > self._watch.position:
            return None
        async with self._turns.setdefault(tenant, asyncio.Lock()):
            recent = self._recent.get(tenant)
            if recent is None or not recent.reaches(place):
                recent = await self._load(tenant, place)
                self._recent.put(tenant, recent)
            return recent.since(place)

    async def _load(self, tenant: str, place: int) -> RecentErasures:
        while True:
            position = self._watch.position
            erasures = await self._feed.erasures(tenant, place, limits.ERASURES_MAX + 1)
            if position == self._watch.position:
                # Otherwise an erasure may have been reported after the store was read.
                return RecentErasures(place, map(self._told, erasures))

    def _told(self, erasure: Erasure) -> Told:
        digest = author_digest(self._salt, user_id(erasure.author))
        return erasure.position, ErasedAuthor(digest, rfc3339(erasure.at))

    def _frames(self, told: Sequence[Told], place: int) -> Iterator[bytes]:
        """Yield the `erased` frames; there is at least one, because a device needs its new
        position."""
        salt = self._salt.hex()
        for start in range(0, max(1, len(told)), limits.ERASURES_FRAME_MAX):
            some = told[start : start + limits.ERASURES_FRAME_MAX]
            place = some[-1][0] if some else place
            yield encode(ErasedFrame(salt, [author for _, author in some], place))
