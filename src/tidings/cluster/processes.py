# SPDX-License-Identifier: Apache-2.0
"""The list of processes in Redis: each process reports its state every few seconds.

The states are encrypted, because Redis and its other users are not trusted. Ages of reports come
from the clock of the Redis server. A process that died stays in the list for a while, so that an
operator sees that it no longer reports.
"""

from contextlib import suppress
from typing import Final

import msgspec

from tidings.cluster.redis_link import RedisLink
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.processes import ProcessState
from tidings.ports.world import Clock

FORGOTTEN_MS: Final = 60_000
"""Time after which a process that no longer reports is removed from the list."""
PROCESSES_MAX: Final = 1_000
"""Number of processes that are returned."""
_TAG: Final = "processes"

_REPORT: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
"""

_AGES: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], now - ARGV[1], '+inf', 'WITHSCORES',
    'LIMIT', 0, ARGV[2])
for i = 2, #found, 2 do
    found[i] = now - tonumber(found[i])
end
return found
"""

_STATES: Final = """
local found = {}
for i, key in ipairs(KEYS) do
    found[i] = redis.call('GET', key)
end
return found
"""

_FORGET: Final = """
redis.call('ZREM', KEYS[1], ARGV[1])
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ProcessState).decode


class RedisProcesses:
    """Reports the state of this process to the others, and lists the states of all processes."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._times = link.name("processes", "times", hash_tag=_TAG)

    async def report(self, state: ProcessState) -> None:
        """Store the state of this process; if Redis does not answer, nothing is stored until the
        next report."""
        key = self._key(state.name)
        sealed = self._link.seal(key, _encode(state))
        given = (state.name, sealed, FORGOTTEN_MS)
        with suppress(RegistryUnavailable):
            await self._link.run(_REPORT, [self._times, key], given)

    async def forget(self, name: str) -> None:
        """Remove a process that stops; if Redis does not answer, the report expires."""
        with suppress(RegistryUnavailable):
            await self._link.run(_FORGET, [self._times], (name,))

    async def states(self) -> list[ProcessState]:
        """Return the last report of each process.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        asked = (FORGOTTEN_MS, PROCESSES_MAX)
        ((_, found),) = await self._link.run(_AGES, [self._times], asked)
        keys, ages = [self._key(name.decode()) for name in found[::2]], found[1::2]
        if not keys:
            return []
        ((_, values),) = await self._link.run(_STATES, keys)
        now = self._clock.now()
        states = [
            self._open(key, sealed, now - int(age))
            for key, sealed, age in zip(keys, values, ages, strict=True)
        ]
        return [state for state in states if state is not None]

    def _open(self, key: str, sealed: bytes | None, reported_at: int) -> ProcessState | None:
        encoded = None if sealed is None else self._link.open(key, sealed)
        if encoded is None:
            return None
        try:
            state = _decode(encoded)
        except msgspec.ValidationError:
            return None  # a process of another version, which reports other fields
        return msgspec.structs.replace(state, reported_at=reported_at)

    def _key(self, name: str) -> str:
        return self._link.name("process", name, hash_tag=_TAG)
