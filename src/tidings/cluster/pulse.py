# SPDX-License-Identifier: Apache-2.0
"""Measures how far delivery is behind: each process reports its delay, and gateways read all
reports.

Several times a second, each process writes to Redis the time up to which it has finished its work:
a publisher has sent its events to Kafka, a worker has delivered its events. Everything that was
acknowledged before the earliest of these times is in the head copies. A gateway therefore reads the
earliest time before it reads head copies at hello. If this time is too long ago, the gateway reads
the logs instead.

The last time of a process that died stays valid for `FORGOTTEN_MS`, until other workers have taken
over its work. The same is true for a worker that stops or has just started, because Kafka then
divides the work again. All times come from the clock of the Redis server.
"""

import asyncio
from typing import Final

from tidings.cluster.redis_link import RedisLink
from tidings.ports.delivery import RegistryUnavailable
from tidings.tasks import Backlog, Tasks

PULSE_SECONDS: Final = 0.25
FORGOTTEN_MS: Final = 30_000
STARTING_SECONDS: Final = 15.0
"""Time after its start during which a worker is treated as behind."""
BEHIND_MS_MAX: Final = 1_700
"""Maximum delay of delivery at which head copies are still used. Together with the time for which
an answer is cached, and with the time that an event needs to reach a worker, it is less than two
seconds."""
ANSWER_SECONDS: Final = 0.2
"""Time for which an answer is cached, so that several hellos share it."""

_TELL: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now - ARGV[1], ARGV[2])
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
    """Reports how far this process is behind, and finds out how far behind all processes are."""

    def __init__(
        self,
        link: RedisLink,
        name: str,
        backlog: Backlog,
        *,
        is_worker: bool,
        starting_seconds: float = STARTING_SECONDS,
    ) -> None:
        """Set up the pulse; `backlog` has the events that are not published or not delivered
        yet."""
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
        """Start to report how far this process is behind."""
        self._tasks.repeat(self._beat)

    async def close(self) -> None:
        """Stop reporting. The last time of a worker stays valid until others have taken over."""
        await self._tasks.close()
        if self._answer is not None:
            self._answer.cancel()
        if not self._is_worker:
            try:
                await self._link.call(self._link.redis.zrem(self._key, self._member))
            except RegistryUnavailable:
                return  # the reported time expires by itself

    async def _beat(self) -> None:
        await self.tell()
        await asyncio.sleep(PULSE_SECONDS)

    async def tell(self) -> None:
        """Report how far this process is behind."""
        is_starting = self._loop.time() < self._ready_at
        # If a process reported more, it would be forgotten sooner after its end.
        most = 2 * BEHIND_MS_MAX
        behind = most if is_starting else min(round(self._backlog.seconds * 1_000), most)
        try:
            await self._link.run(_TELL, [self._key], (behind, self._member, FORGOTTEN_MS))
        except RegistryUnavailable:
            return  # then gateways cannot read it either

    async def is_current(self) -> bool:
        """Return True if the head copies include every entry that was acknowledged two seconds ago
        or earlier."""
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
