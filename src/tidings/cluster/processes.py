# SPDX-License-Identifier: Apache-2.0
"""The list of processes in Redis: each process reports its state every few seconds.

The states are encrypted, because Redis and its other users are not trusted. Ages of reports come
from the clock of the Redis server. A process that died stays in the list for a while, so that an
operator sees that it no longer reports.
"""

from typing import Final

import msgspec

from tidings.cluster.redis_link import RedisLink
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.processes import ProcessState
from tidings.ports.world import Clock

FORGOTTEN_MS: Final = 60_000
"""Time after which a process that no longer reports is removed from the list."""
PROCESSES_MAX: Final = 1_000
"""Number of processes that are returned, those that reported last."""

_REPORT: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[1])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[3])) do
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
"""

_LIST: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
local names = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', now - ARGV[1], 'WITHSCORES',
    'LIMIT', 0, ARGV[2])
for i = 1, #names, 2 do
    local state = redis.call('HGET', KEYS[1], names[i])
    if state then
        found[#found + 1] = {state, now - tonumber(names[i + 1])}
    end
end
return found
"""

_FORGET: Final = """
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ProcessState).decode


class RedisProcesses:
    """Reports the state of this process to the others, and lists the states of all processes."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._place = link.name("processes", "states")
        self._keys = (self._place, link.name("processes", "times", hash_tag="states"))

    async def report(self, state: ProcessState) -> None:
        """Store the state of this process; if Redis does not answer, the next report does it."""
        sealed = self._link.seal(self._place, _encode(state))
        try:
            await self._link.run(_REPORT, self._keys, (state.name, sealed, FORGOTTEN_MS))
        except RegistryUnavailable:
            return

    async def forget(self, name: str) -> None:
        """Remove a process that stops; if Redis does not answer, the report expires."""
        try:
            await self._link.run(_FORGET, self._keys, (name,))
        except RegistryUnavailable:
            return

    async def states(self) -> list[ProcessState]:
        """Return the last report of each process.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        ((_, found),) = await self._link.run(_LIST, self._keys, (FORGOTTEN_MS, PROCESSES_MAX))
        now = self._clock.now()
        states = [self._open(sealed, now - int(age)) for sealed, age in found]
        return [state for state in states if state is not None]

    def _open(self, sealed: bytes, reported_at: int) -> ProcessState | None:
        encoded = self._link.open(self._place, sealed)
        if encoded is None:
            return None
        try:
            state = _decode(encoded)
        except msgspec.ValidationError:
            return None  # a process of another version, which reports other fields
        return msgspec.structs.replace(state, reported_at=reported_at)
