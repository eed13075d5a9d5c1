# SPDX-License-Identifier: Apache-2.0
"""How far delivery is behind, over all processes: each process tells it, every gateway can ask.

Each process writes to Redis, several times a second, the time up to which it has done all its work:
a publisher has passed its events on to Kafka, a worker has delivered its events. Everything that
was acknowledged before the earliest of these times is in the head copies. A gateway therefore asks
for the earliest time before it reads head copies at hello. If the time is too long ago, the gateway
reads the logs.

A process that dies leaves its last time behind, which counts for `FORGOTTEN_MS`. Until then, other
workers have taken over its work. So does a worker that stops or has just started, because Kafka
then divides the work anew. All times come from the clock of the Redis server.
"""

import asyncio
from typing import Final

from tidings.cluster.redis_link import RedisLink
from tidings.ports.delivery import RegistryUnavailable
from tidings.tasks import Backlog, Tasks

PULSE_SECONDS: Final = 0.25
FORGOTTEN_MS: Final = 30_000
STARTING_SECONDS: Final = 15.0
"""Time after the start of a worker during which it counts as behind."""
BEHIND_MS_MAX: Final = 1_700
"""Limit on how far delivery may be behind. With the time for which an answer is used again, and
with the way of an event to a worker, this stays below two seconds."""
ANSWER_SECONDS: Final = 0.2
"""Time for which the answer to one hello is used for others."""

_TELL: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local behind = math.min(tonumber(ARGV[1]), ARGV[3] - 1000)
redis.call('ZADD', KEYS[1], now - behind, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
"""

_ASK: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local behind = 0
local workers = 0
local told = redis.call('ZRANGEBYSCORE', KEYS[1], now - ARGV[1], '+inf', 'WITHSCORES')
for i = 1, #told, 2 do
    behind = math.max(behind, now - tonumber(told[i + 1]))
    if string.sub(told[i], 1, 2) == 'w/' then
        workers = workers + 1
    end
end
return {behind, workers}
"""


class DeliveryPulse:
    """Tells the others how far this process is behind, and knows how far all of them are."""

    def __init__(
        self,
        link: RedisLink,
        name: str,
        backlog: Backlog,
        *,
        is_worker: bool,
        starting_seconds: float = STARTING_SECONDS,
    ) -> None:
        """`backlog` has the events that this process has not passed on or not delivered yet."""
        self._link = link
        self._key = link.name("delivery", "behind")
        self._member = f"{'w' if is_worker else 'g'}/{name}"
        self._is_worker = is_worker
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._ready_at = self._loop.time() + (starting_seconds if is_worker else 0.0)
        self._asked_at = -ANSWER_SECONDS
        self._answer: asyncio.Task[bool] | None = None
        self._tasks = Tasks("pulse")

    def start(self) -> None:
        """Start to tell the others."""
        self._tasks.repeat(self._beat)

    async def close(self) -> None:
        """Stop. A worker's last time stays until others have taken over."""
        await self._tasks.close()
        if self._answer is not None:
            self._answer.cancel()
        if not self._is_worker:
            try:
                await self._link.call(self._link.redis.zrem(self._key, self._member))
            except RegistryUnavailable:
                return  # it is forgotten by itself

    async def _beat(self) -> None:
        await self.tell()
        await asyncio.sleep(PULSE_SECONDS)

    async def tell(self) -> None:
        """Tell the others how far this process is behind."""
        is_starting = self._loop.time() < self._ready_at
        behind = FORGOTTEN_MS if is_starting else round(self._backlog.seconds * 1_000)
        try:
            await self._link.run(_TELL, [self._key], (behind, self._member, FORGOTTEN_MS))
        except RegistryUnavailable:
            return  # then nobody can ask either

    async def is_current(self) -> bool:
        """Return whether the head copies include all that was acknowledged two seconds ago."""
        now = self._loop.time()
        if self._answer is None or now - self._asked_at >= ANSWER_SECONDS:
            self._asked_at, self._answer = now, self._loop.create_task(self._ask())
        return await asyncio.shield(self._answer)

    async def _ask(self) -> bool:
        try:
            ((_, (behind, workers)),) = await self._link.run(_ASK, [self._key], (FORGOTTEN_MS,))
        except RegistryUnavailable:
            return False
        return bool(workers) and int(behind) <= BEHIND_MS_MAX
