# SPDX-License-Identifier: Apache-2.0
"""Destroy an author's data key, in two steps if other processes may have cached it.

First, one transaction marks the key as about to be destroyed (`is_ending`) and adds it to the
revocation feed. From then on no process loads the key, and processes that cached it drop it when
they read the feed. The key is destroyed only when it has expired in every cache, even in a process
that did not read the feed.

The feed then contains the author and the time of the destruction. Everything that the author wrote
before this time is erased. Later content is not erased, because it has a new key.
"""

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

from tidings.actions.content.data_keys import CachedKeys
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, WrappedKey
from tidings.ports.world import Clock
from tidings.tasks import Tasks


class Erasing:
    """Erases the content of authors: one erasure at a time per author, several authors in
    parallel."""

    def __init__(
        self, keys: DataKeys, cached: CachedKeys, clock: Clock, wait_seconds: float
    ) -> None:
        self._keys = keys
        self._cached = cached
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._turns: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._erasing: set[asyncio.Task[int]] = set()
        self._completing: set[UserKey] = set()
        self._tasks = Tasks("erasing")

    async def erase(self, author: UserKey) -> int:
        """Destroy the author's data key, in the cache and in the store; return 1, or 0 if there was
        none.

        An erasure that has started is completed, even if the caller is cancelled.

        Raises:
            StoreUnavailable: The outcome is unknown; the call is safe to repeat.
        """
        task = asyncio.get_running_loop().create_task(self._erase(author))
        self._erasing.add(task)
        task.add_done_callback(self._erasing.discard)
        return await asyncio.shield(task)

    async def _erase(self, author: UserKey) -> int:
        async with self._turns.setdefault(author, asyncio.Lock()):
            async with self._cached.without_key_of(author):
                # Read the clock here, because from now on nothing is encrypted with the key.
                generation = await self._keys.end(author, self._clock.now())
            if generation is None:
                return 0
            await self._destroy(author, generation)
            return 1

    async def _destroy(self, author: UserKey, generation: int) -> None:
        await asyncio.sleep(self._wait_seconds)
        await self._keys.destroy(author, generation, self._clock.now())

    def complete(self, key: WrappedKey) -> None:
        """Destroy a key whose erasure has begun (`is_ending`), in case the process that began it
        crashed."""
        if key.author not in self._completing:
            self._completing.add(key.author)
            self._tasks.start(self._completed(key))

    async def _completed(self, key: WrappedKey) -> None:
        try:
            # If the store does not answer, the next process that finds the key tries again.
            with suppress(StoreUnavailable):
                await self._destroy(key.author, key.generation)
        finally:
            self._completing.discard(key.author)

    async def close(self) -> None:
        """Cancel all erasures. A repeated request, or the next process that finds the key, finishes
        them."""
        for task in self._erasing:
            task.cancel()
        if self._erasing:
            await asyncio.wait(list(self._erasing))
        await self._tasks.close()
