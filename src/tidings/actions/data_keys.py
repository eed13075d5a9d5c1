# SPDX-License-Identifier: Apache-2.0
"""Data keys in memory: unwrapped, a bounded number of them, the least recently used out first."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.wrapping import CannotUnwrap, Wrapping, data_key_purpose
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, WrappedKey
from tidings.ports.world import Chance

log = logging.getLogger("tidings.vault")

DATA_KEY_BYTES: Final = 32


class HeldKey(msgspec.Struct, frozen=True, gc=False):
    """The latest data key known of an author. All generations before it are destroyed."""

    generation: int
    cipher: AESGCM | None
    """None: this one is of no use either."""


class HeldKeys:
    """The authors' data keys at hand. One author's are loaded, made and destroyed in turn."""

    def __init__(self, keys: DataKeys, wrapping: Wrapping, chance: Chance) -> None:
        self.unusable = 0
        """How many keys did not open although they are there."""
        self._keys = keys
        self._wrapping = wrapping
        self._chance = chance
        self._held: OrderedDict[UserKey, HeldKey] = OrderedDict()
        self._locks: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._destroying: set[asyncio.Task[int]] = set()

    def at_hand(self, author: UserKey) -> HeldKey | None:
        """The author's latest key, if it is in memory."""
        held = self._held.get(author)
        if held is not None:
            self._held.move_to_end(author)
        return held

    async def load_current(self, author: UserKey) -> None:
        """Have the key the author seals with at hand; it is made if there is none.

        Raises:
            StoreUnavailable: It cannot be had now.
        """
        async with self._lock(author):
            held = self._held.get(author)
            if held is not None and held.cipher is not None:
                return
            key, cipher = await self._open(lambda: self._current_or_new(author))
            if key is None or cipher is None:
                raise StoreUnavailable("the author's key cannot be opened")
            self._hold(author, HeldKey(key.generation, cipher))

    async def load(self, author: UserKey, generation: int) -> None:
        """Have this generation of the author's keys at hand, or know that it is of no use.

        Raises:
            StoreUnavailable: The store cannot tell now.
        """
        async with self._lock(author):
            held = self._held.get(author)
            if held is None or held.generation < generation:
                _, cipher = await self._open(lambda: self._keys.get(author, generation))
                self._hold(author, HeldKey(generation, cipher))

    async def destroy(self, author: UserKey) -> int:
        """Destroy all keys of an author, here and in the store; returns how many there were.

        Once begun it is carried through, even if the caller is cancelled: a key that is gone from
        the store must not stay in memory.
        """
        task = asyncio.get_running_loop().create_task(self._destroy(author))
        self._destroying.add(task)
        task.add_done_callback(self._destroying.discard)
        return await asyncio.shield(task)

    async def _destroy(self, author: UserKey) -> int:
        async with self._lock(author):
            try:
                return await self._keys.destroy(author)
            finally:
                self._held.pop(author, None)

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
    ) -> tuple[WrappedKey | None, AESGCM | None]:
        key = await read()
        if key is not None and not self._wrapping.holds(key.master_key_id):
            key = await read()  # a rotation may have ended between the read and now
        if key is None:
            return None, None
        try:
            secret = self._wrapping.unwrap(
                data_key_purpose(key.author), key.master_key_id, key.wrapped
            )
        except CannotUnwrap as reason:
            self._report(key, reason)
            return key, None
        return key, AESGCM(secret)

    def _hold(self, author: UserKey, key: HeldKey) -> None:
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
