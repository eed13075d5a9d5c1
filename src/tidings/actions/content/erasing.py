# SPDX-License-Identifier: Apache-2.0
"""Destroying an author's data key, in two steps where other processes may hold it.

First the key is marked as ending, together with an entry of the feed: whoever asks the store is not
given it any more, and whoever holds it drops it on the news. It is destroyed only when no process
can be using what it held, whether it heard the news or not.
"""

import asyncio
from contextlib import suppress
from weakref import WeakValueDictionary

from tidings.actions.content.data_keys import CachedKeys
from tidings.model.ids import UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, WrappedKey
from tidings.tasks import Tasks


class Erasing:
    """Erases one author at a time in one turn, many side by side."""

    def __init__(self, keys: DataKeys, held: CachedKeys, wait_seconds: float) -> None:
        self._keys = keys
        self._held = held
        self._wait_seconds = wait_seconds
        self._turns: WeakValueDictionary[UserKey, asyncio.Lock] = WeakValueDictionary()
        self._erasing: set[asyncio.Task[int]] = set()
        self._completing: set[UserKey] = set()
        self._tasks = Tasks("erasing")

    async def erase(self, author: UserKey, now: int) -> int:
        """Destroy the author's key, here and in the store; returns how many there were: 0 or 1.

        Once begun it is carried through, even if the caller is cancelled.

        Raises:
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        task = asyncio.get_running_loop().create_task(self._erase(author, now))
        self._erasing.add(task)
        task.add_done_callback(self._erasing.discard)
        return await asyncio.shield(task)

    async def _erase(self, author: UserKey, now: int) -> int:
        async with self._turns.setdefault(author, asyncio.Lock()):
            async with self._held.without_key_of(author):
                generation = await self._keys.end(author, now)
            if generation is None:
                return 0
            await self._destroy(author, generation)
            return 1

    async def _destroy(self, author: UserKey, generation: int) -> None:
        await asyncio.sleep(self._wait_seconds)
        await self._keys.destroy(author, generation)

    def complete(self, key: WrappedKey) -> None:
        """Somebody began to destroy this key, and may have died since: carry on in its place."""
        if key.author not in self._completing:
            self._completing.add(key.author)
            self._tasks.start(self._completed(key))

    async def _completed(self, key: WrappedKey) -> None:
        try:
            # If the store does not answer, whoever meets the key next tries again.
            with suppress(StoreUnavailable):
                await self._destroy(key.author, key.generation)
        finally:
            self._completing.discard(key.author)

    async def close(self) -> None:
        """Leave the rest to a repeat, or to whoever meets the key."""
        for task in self._erasing:
            task.cancel()
        if self._erasing:
            await asyncio.wait(list(self._erasing))
        await self._tasks.close()
