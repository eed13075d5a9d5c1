# SPDX-License-Identifier: Apache-2.0
"""Caches the unwrapped data keys of authors, and computes digests of sent messages with them.

The least recently used keys are evicted first.

A key is confirmed when it is read from the store, and whenever the revocation feed is read and does
not name its author. A cached key is used only for a few seconds after it was last confirmed. If
other processes may have cached the key, an erasure waits longer than these seconds before it
destroys the key, so that no process still uses it.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from time import monotonic
from typing import Final, Literal
from weakref import WeakValueDictionary

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.wrapping import CannotUnwrap, Wrapping, data_key_purpose
from tidings.actions.identity.revocation_watch import FeedListener, RevocationIndex, RevocationWatch
from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, WrappedKey
from tidings.ports.sessions import Revocation
from tidings.ports.world import Chance

log = logging.getLogger("tidings.vault")

DATA_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_GENERATION_BYTES: Final = 4
LOADS_MAX: Final = 3
"""Maximum number of attempts to load a key. A second attempt is needed only if the read takes
longer than the key may be used."""
TOO_SLOW: Final = "keys are read more slowly than they may be used"
_DIGEST_PURPOSE: Final = b"tidings sends"

Unusable = Literal["no_master_key", "changed"]
"""Why a data key cannot be unwrapped: this process does not have the master key that wraps it, or
the data key was changed after it was stored."""


class KeyLeases(msgspec.Struct, frozen=True, kw_only=True):
    """How long a cached data key may be used before it must be confirmed again."""

    open_seconds: float = limits.REVOKED_SECONDS_MAX
    seal_seconds: float = limits.SEAL_SECONDS_MAX
    erasing_seconds: float = limits.ERASING_SECONDS
    """How long an erasure waits before it destroys the key; 0 if only one process uses the
    store."""


ALONE: Final = KeyLeases(erasing_seconds=0)


class CachedKey(msgspec.Struct, frozen=True, gc=False):
    """The latest known data key of an author. The keys of all earlier generations are destroyed."""

    generation: int
    cipher: AESGCM | None
    """None if the key cannot be used, because it is destroyed, about to be destroyed, or cannot be
    unwrapped."""
    read_at: float
    """When the read from the store began, by the clock of the revocation watch."""
    digests: "blake2b | None" = None
    """Makes the digests of the author's messages. It has taken up its secret key already, which is
    four fifths of the cost of a short digest."""
    unusable: Unusable | None = None
    """Why the key cannot be unwrapped, if that is why it cannot be used. It is not destroyed, and
    its content is not erased."""

    def lacks_master_key(self, generation: int) -> bool:
        """Return True if the key of this generation is in the store, and a process with the right
        master key unwraps it."""
        return self.unusable == "no_master_key" and self.generation == generation


class CachedKeys:
    """Caches the data keys of authors; loads and creates them, one at a time per author."""

    def __init__(
        self,
        keys: DataKeys,
        wrapping: Wrapping,
        chance: Chance,
        leases: KeyLeases,
        met_ending: Callable[[WrappedKey], None],
    ) -> None:
        """Create an empty cache.

        `met_ending` is called with each loaded key that turns out to be marked for destruction.
        """
        self.unusable = 0
        """Number of stored keys that could not be unwrapped."""
        self._keys = keys
        self._wrapping = wrapping
        self._chance = chance
        self._leases = leases
        self._met_ending = met_ending
        self._cached: LruCache[UserKey, CachedKey] = LruCache(
            limits.CACHED_DATA_KEYS_MAX, name="data keys"
        )
        self._locks: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._watch: RevocationWatch | None = None
        self._now: Callable[[], float] = monotonic
        self._seen_at = -math.inf

    # --- The feed -------------------------------------------------------------------------

    def follow(self, watch: RevocationWatch) -> None:
        """Follow the revocation feed: drop the keys that it revokes, and confirm all others."""
        self._watch = watch
        self._now = watch.now
        watch.listen(self.revoked)
        watch.report_to(self)

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Remove from the cache the data keys of authors whose content is being erased."""
        for author in RevocationIndex(revocations).data_keys:
            self._cached.pop(UserKey(author))

    def saw(self, at: float) -> None:
        """Confirm all cached keys, because the revocation feed was read at this time.

        The keys that the feed names were dropped before.
        """
        self._seen_at = at

    def went_blind(self, *, was_late: bool) -> None:
        """Do nothing: while the revocation feed cannot be read, the cached keys expire by
        themselves."""

    # --- Cached keys ----------------------------------------------------------------------

    def to_open(self, author: UserKey) -> CachedKey | None:
        """Return the author's latest data key, if it is cached and may still decrypt content."""
        cached = self._cached.get(author)
        since = self._now() - self._leases.open_seconds
        if cached is None or (self._seen_at < since and cached.read_at < since):
            return None
        return cached

    def to_seal(self, author: UserKey) -> CachedKey | None:
        """Return the author's latest data key, if it is cached and may still encrypt content."""
        # This and `seals` run once for every message, so they call as little as possible.
        cached = self._cached.peek(author)
        if cached is None or cached.cipher is None:
            return None
        since = self._now() - self._leases.seal_seconds
        if self._seen_at < since and cached.read_at < since:
            return None
        self._cached.touch(author)
        return cached

    def seals(self, author: UserKey, generation: int) -> bool:
        """Return True if content that is encrypted with the author's key of this generation may
        still be written."""
        cached = self._cached.peek(author)
        if cached is None or cached.generation != generation or cached.cipher is None:
            return False
        since = self._now() - self._leases.seal_seconds
        return self._seen_at >= since or cached.read_at >= since

    # --- Loading --------------------------------------------------------------------------

    async def load_current(self, author: UserKey) -> None:
        """Cache the author's current data key, for new content; create it if there is none.

        Raises:
            StoreUnavailable: The data key cannot be loaded now, or is being destroyed.
        """
        async with self._lock(author):
            if self.to_seal(author) is not None:
                return
            key, cached = await self._open(lambda: self._current_or_new(author))
            if key is not None and key.is_ending:
                self._met_ending(key)
                raise StoreUnavailable("the author's content is being erased")
            if cached is None or cached.unusable is not None:
                raise StoreUnavailable("the author's key cannot be opened")
            self._cached.put(author, cached)

    async def loaded(self, author: UserKey, generation: int) -> CachedKey:
        """Return the author's latest data key; load it if the cached one is older than this
        generation.

        Raises:
            StoreUnavailable: The data key cannot be loaded now.
        """
        for _ in range(LOADS_MAX):
            cached = self.to_open(author)
            if cached is not None and cached.generation >= generation:
                return cached
            await self.load(author, generation)
        raise StoreUnavailable(TOO_SLOW)

    async def load(self, author: UserKey, generation: int) -> None:
        """Cache the author's key of this generation, or the fact that it is destroyed, about to be,
        or cannot be unwrapped.

        Raises:
            StoreUnavailable: The store does not answer now.
        """
        async with self._lock(author):
            cached = self.to_open(author)
            if cached is None or cached.generation < generation:
                began = self._now()
                _, cached = await self._open(lambda: self._keys.get(author, generation))
                self._cached.put(author, cached or CachedKey(generation, None, began))

    @asynccontextmanager
    async def without_key_of(self, author: UserKey) -> AsyncIterator[None]:
        """Drop the author's data key from the cache, and prevent loading it inside this context.

        Inside this context, the caller calls `DataKeys.end`. The key has left the cache by then, so
        this process encrypts nothing more with it.
        """
        async with self._lock(author):
            self._cached.pop(author)
            yield

    async def _current_or_new(self, author: UserKey) -> WrappedKey:
        key = await self._keys.current(author)
        if key is not None:
            return key
        return await self._wrapping.keep(
            data_key_purpose(author),
            self._chance.token(DATA_KEY_BYTES),
            lambda key_id, wrapped: self._keys.add(
                WrappedKey(author=author, generation=0, wrapped=wrapped, master_key_id=key_id)
            ),
        )

    async def _open(
        self, read: Callable[[], Awaitable[WrappedKey | None]]
    ) -> tuple[WrappedKey | None, CachedKey | None]:
        """Read and unwrap a data key; return it as it is stored, and as it is to be cached; not
        the latter if there is no key, or it is about to be destroyed.

        If a revocation arrives during the read, the key is read again, because it may be the
        revoked one.
        """
        while True:
            began, position = self._now(), self._position
            key = await read()
            if key is not None and not self._wrapping.holds(key.master_key_id):
                key = await read()  # a rotation may have ended between the read and now
            if position == self._position:
                break
        if key is None or key.is_ending:
            return key, None
        try:
            secret = self._wrapping.unwrap(
                data_key_purpose(key.author), key.master_key_id, key.wrapped
            )
        except CannotUnwrap as reason:
            self._report(key, reason)
            has_master_key = self._wrapping.holds(key.master_key_id)
            unusable: Unusable = "changed" if has_master_key else "no_master_key"
            return key, CachedKey(key.generation, None, began, unusable=unusable)
        return key, CachedKey(key.generation, AESGCM(secret), began, keyed_digests(secret))

    @property
    def _position(self) -> int:
        return self._watch.position if self._watch is not None else 0

    def _report(self, key: WrappedKey, reason: CannotUnwrap) -> None:
        self.unusable += 1
        log.critical(
            "data key cannot be opened",
            extra={"action": "data_key_unusable", "author": key.author, "reason": str(reason)},
        )

    def _lock(self, author: UserKey) -> asyncio.Lock:
        return self._locks.setdefault(author, asyncio.Lock())


def keyed_digests(data_key: bytes) -> "blake2b":
    """Return what makes an author's digests, with a secret key that is derived from the author's
    data key."""
    key = blake2b(key=data_key, digest_size=32, person=_DIGEST_PURPOSE).digest()
    return blake2b(key=key, digest_size=_DIGEST_BYTES)


def send_digest(cached: CachedKey, digested: str) -> bytes:
    """Return the keyed digest of a send, followed by the generation of the author's data key."""
    assert cached.digests is not None, "a key that seals makes digests"
    keyed = cached.digests.copy()
    keyed.update(digested.encode())
    return keyed.digest() + cached.generation.to_bytes(_GENERATION_BYTES, "big")


def is_same_send(digest: bytes, kept: bytes) -> bool:
    """Return False if two sends with the same idempotency key have different content.

    Return True if the digests are equal, and also if they were made with different data keys, so
    that they cannot be compared.
    """
    return digest == kept or digest[_DIGEST_BYTES:] != kept[_DIGEST_BYTES:]


_conforms: type[FeedListener] = CachedKeys
