# SPDX-License-Identifier: Apache-2.0
"""Data keys in memory: unwrapped, a bounded number of them, the least recently used out first.

A key in memory counts as of the last moment at which the store was asked for it, or at which the
feed was read and did not name its author. It opens and seals only for a few seconds after that
moment; an erasure where other processes may hold the key waits for longer before it destroys it.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.wrapping import CannotUnwrap, Wrapping, data_key_purpose, digest_key
from tidings.actions.identity.revocation_watch import FeedListener, RevocationIndex, RevocationWatch
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, WrappedKey
from tidings.ports.sessions import Revocation
from tidings.ports.world import Chance

log = logging.getLogger("tidings.vault")

DATA_KEY_BYTES: Final = 32


class KeyLeases(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a key in memory is used without a new look."""

    open_seconds: float = limits.REVOKED_SECONDS_MAX
    seal_seconds: float = limits.SEAL_SECONDS_MAX
    erasing_seconds: float = limits.ERASING_SECONDS
    """How long an erasure waits before it destroys the key: nothing, in the one process that uses
    the store."""


ALONE: Final = KeyLeases(erasing_seconds=0)


class CachedKey(msgspec.Struct, frozen=True, gc=False):
    """The latest data key known of an author. All generations before it are destroyed."""

    generation: int
    cipher: AESGCM | None
    """None: this one is of no use either."""
    read_at: float
    """When the store was asked for it, by the watch's clock."""
    digest_key: bytes = b""
    """For digests of what the author sends."""


class CachedKeys:
    """The authors' data keys at hand. One author's are loaded and made in turn."""

    def __init__(
        self,
        keys: DataKeys,
        wrapping: Wrapping,
        chance: Chance,
        leases: KeyLeases,
        met_ending: Callable[[WrappedKey], None],
    ) -> None:
        """`met_ending` is told of a key that is about to be destroyed."""
        self.unusable = 0
        """How many keys did not open although they are there."""
        self._keys = keys
        self._wrapping = wrapping
        self._chance = chance
        self._leases = leases
        self._met_ending = met_ending
        self._held: OrderedDict[UserKey, CachedKey] = OrderedDict()
        self._locks: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._watch: RevocationWatch | None = None
        self._now: Callable[[], float] = monotonic
        self._seen_at = -math.inf

    # --- The feed -------------------------------------------------------------------------

    def follow(self, watch: RevocationWatch) -> None:
        """Drop keys when the feed tells so, and believe the others as long as it is seen."""
        self._watch = watch
        self._now = watch.now
        watch.listen(self.revoked)
        watch.report_to(self)

    def revoked(self, revocations: Sequence[Revocation]) -> None:
        """Drop the keys of authors whose content is being erased."""
        for author in RevocationIndex(revocations).data_keys:
            self._held.pop(UserKey(author), None)

    def saw(self, at: float) -> None:
        """No key that is held had begun to end at this moment."""
        self._seen_at = at

    def went_blind(self, *, was_late: bool) -> None:
        """Nothing to do: leases run out by the clock."""

    # --- Keys at hand ---------------------------------------------------------------------

    def to_open(self, author: UserKey) -> CachedKey | None:
        """The author's latest key, if it is in memory and may still be opened with."""
        return self._at_hand(author, self._leases.open_seconds)

    def to_seal(self, author: UserKey) -> CachedKey | None:
        """The author's latest key, if it is in memory and may still be sealed with."""
        held = self._at_hand(author, self._leases.seal_seconds)
        return held if held is not None and held.cipher is not None else None

    def seals(self, author: UserKey, generation: int) -> bool:
        """Whether what was sealed with this key may be written now."""
        held = self._held.get(author)
        return (
            held is not None
            and held.generation == generation
            and held.cipher is not None
            and self._is_leased(held, self._leases.seal_seconds)
        )

    def _at_hand(self, author: UserKey, seconds: float) -> CachedKey | None:
        held = self._held.get(author)
        if held is None or not self._is_leased(held, seconds):
            return None
        self._held.move_to_end(author)
        return held

    def _is_leased(self, held: CachedKey, seconds: float) -> bool:
        since = self._now() - seconds
        return self._seen_at >= since or held.read_at >= since

    # --- Loading --------------------------------------------------------------------------

    async def load_current(self, author: UserKey) -> None:
        """Have the key the author seals with at hand; it is made if there is none.

        Raises:
            StoreUnavailable: It cannot be had now, or is being destroyed.
        """
        async with self._lock(author):
            if self.to_seal(author) is not None:
                return
            key, held = await self._open(lambda: self._current_or_new(author))
            if key is not None and key.is_ending:
                self._met_ending(key)
                raise StoreUnavailable("what the author wrote is being erased")
            if held is None:
                raise StoreUnavailable("the author's key cannot be opened")
            self._hold(author, held)

    async def load(self, author: UserKey, generation: int) -> None:
        """Have this generation of the author's keys at hand, or know that it is of no use.

        Raises:
            StoreUnavailable: The store cannot tell now.
        """
        async with self._lock(author):
            held = self.to_open(author)
            if held is None or held.generation < generation:
                began = self._now()
                _, held = await self._open(lambda: self._keys.get(author, generation))
                self._hold(author, held or CachedKey(generation, None, began))

    @asynccontextmanager
    async def without_key_of(self, author: UserKey) -> AsyncIterator[None]:
        """Drop the author's key, and have nobody load it meanwhile.

        It is dropped before the store is written to, so that nothing is sealed with it behind.
        """
        async with self._lock(author):
            self._held.pop(author, None)
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
        """Read a key until the feed told nothing meanwhile: it might have been about this one."""
        while True:
            began, place = self._now(), self._place
            key = await read()
            if key is not None and not self._wrapping.holds(key.master_key_id):
                key = await read()  # a rotation may have ended between the read and now
            if place == self._place:
                break
        if key is None or key.is_ending:
            return key, None
        try:
            secret = self._wrapping.unwrap(
                data_key_purpose(key.author), key.master_key_id, key.wrapped
            )
        except CannotUnwrap as reason:
            self._report(key, reason)
            return key, None
        return key, CachedKey(key.generation, AESGCM(secret), began, digest_key(secret))

    @property
    def _place(self) -> int:
        return self._watch.place if self._watch is not None else 0

    def _hold(self, author: UserKey, key: CachedKey) -> None:
        self._held[author] = key
        self._held.move_to_end(author)
        while len(self._held) > limits.CACHED_DATA_KEYS_MAX:
            self._held.popitem(last=False)

    def _report(self, key: WrappedKey, reason: CannotUnwrap) -> None:
        self.unusable += 1
        log.critical(
            "data key does not open",
            extra={"action": "data_key_unusable", "author": key.author, "reason": str(reason)},
        )

    def _lock(self, author: UserKey) -> asyncio.Lock:
        return self._locks.setdefault(author, asyncio.Lock())


_conforms: type[FeedListener] = CachedKeys
