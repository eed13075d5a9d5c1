# SPDX-License-Identifier: Apache-2.0
"""The registry in Redis: a sorted set of connections for each user, sorted by their expiry.

All times come from the clock of the Redis server, which the scripts read. A registration expires
unless it is refreshed, and the set expires together with its last registration. One request
registers, refreshes or finds up to hundreds of connections. In a cluster, there is one request for
each group of users whose keys are on the same server.

The script that adds a registration also counts the registrations of the user, and adds none beyond
the limit. Therefore two gateways cannot both use the last place at the same moment. A connection
that replaces another one gets its place in the same step, so that no refresh can take it first. The
registrations of a killed process are counted until they expire.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidings.cluster.redis_link import RedisLink
from tidings.model import limits
from tidings.model.ids import UserKey
from tidings.ports.delivery import ConnectionAddress, Refreshed, Registry, RegistryUnavailable
from tidings.tasks import Tasks

TTL_MS: Final = 10_000
REFRESHED_AT_ONCE: Final = 500
FOUND_AT_ONCE: Final = 1_000
LEAVING_MAX: Final = 10_000
"""Limit on registrations that wait to be removed. Further registrations are left to expire."""

_KEEP: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local missing = {}
local surplus = {}
for i, key in ipairs(KEYS) do
    local place = ARGV[2 * i + 1]
    local instead_of = ARGV[2 * i + 2]
    if instead_of ~= '' then
        redis.call('ZREM', key, instead_of)
    end
    local ends = redis.call('ZSCORE', key, place)
    local has_room = true
    if not ends or tonumber(ends) <= now then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
        has_room = redis.call('ZCARD', key) < tonumber(ARGV[2])
        local found = has_room and missing or surplus
        found[#found + 1] = i
    end
    if has_room then
        redis.call('ZADD', key, now + ARGV[1], place)
        redis.call('PEXPIRE', key, ARGV[1])
    end
end
return {missing, surplus}
"""

_FIND: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
for i, key in ipairs(KEYS) do
    local places = redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf')
    if #places > 0 then
        found[#found + 1] = {i, places}
    end
end
return found
"""

_LEAVE: Final = """
for i, key in ipairs(KEYS) do
    redis.call('ZREM', key, ARGV[i])
end
"""


class RedisRegistry:
    """Registers the connections of one gateway, and finds the connections of all gateways."""

    def __init__(self, link: RedisLink, gateway: str, *, ttl_ms: int = TTL_MS) -> None:
        """Create the registry.

        `gateway` is the name of this process; a worker has a name too, although it has no
        connections.
        """
        assert "/" not in gateway, "an address is written as gateway/connection"
        self._link = link
        self._gateway = gateway
        self._ttl_ms = ttl_ms
        self._leaving: list[tuple[UserKey, str]] = []
        self._is_leaving = False
        self._left_meanwhile: list[tuple[UserKey, str]] | None = None
        """Connections that were unregistered while a refresh is running; None if none is running.
        After the refresh they are unregistered once more, because it may have registered them
        again."""
        self._tasks = Tasks("registry")

    async def enter(self, user: UserKey, connection: str, instead_of: str | None = None) -> bool:
        return not (await self._keep([(user, connection)], instead_of)).surplus

    def leave(self, user: UserKey, connection: str) -> None:
        if self._left_meanwhile is not None:
            self._left_meanwhile.append((user, connection))
        if len(self._leaving) < LEAVING_MAX:
            self._leaving.append((user, connection))
        if not self._is_leaving:
            self._is_leaving = True
            self._tasks.start(self._leave())

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        refreshed = Refreshed([], [])
        self._left_meanwhile = []
        try:
            for start in range(0, len(connections), REFRESHED_AT_ONCE):
                kept = await self._keep(connections[start : start + REFRESHED_AT_ONCE])
                refreshed.missing.extend(kept.missing)
                refreshed.surplus.extend(kept.surplus)
        finally:
            again, self._left_meanwhile = self._left_meanwhile, None
            for left in again:
                self.leave(*left)
        return refreshed

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[ConnectionAddress]]:
        wanted = list(users)
        found: dict[UserKey, list[ConnectionAddress]] = {}
        for start in range(0, len(wanted), FOUND_AT_ONCE):
            found.update(await self._find(wanted[start : start + FOUND_AT_ONCE]))
        return found

    async def close(self) -> None:
        """Remove the registrations that wait to be removed, and stop."""
        await self._tasks.finish()

    async def _keep(
        self, connections: Sequence[tuple[UserKey, str]], instead_of: str | None = None
    ) -> Refreshed:
        keys = [self._key(user) for user, _ in connections]
        removed = "" if instead_of is None else self._address(instead_of)
        addresses = [(self._address(connection), removed) for _, connection in connections]
        common = (self._ttl_ms, limits.USER_CONNECTIONS_MAX)
        refreshed = Refreshed([], [])
        for group, (missing, surplus) in await self._link.run(_KEEP, keys, common, addresses):
            refreshed.missing.extend(connections[group[index - 1]] for index in missing)
            refreshed.surplus.extend(connections[group[index - 1]] for index in surplus)
        return refreshed

    async def _find(self, users: Sequence[UserKey]) -> dict[UserKey, list[ConnectionAddress]]:
        keys = [self._key(user) for user in users]
        answers = await self._link.run(_FIND, keys)
        return {
            users[group[index - 1]]: [_to_address(written) for written in found]
            for group, answer in answers
            for index, found in answer
        }

    async def _leave(self) -> None:
        """Remove the registrations that wait to be removed, in batches, because a drain removes
        thousands."""
        try:
            while self._leaving:
                leaving = self._leaving[:REFRESHED_AT_ONCE]
                del self._leaving[:REFRESHED_AT_ONCE]
                await self._remove(leaving)
        except RegistryUnavailable:
            self._leaving.clear()  # they expire
        finally:
            self._is_leaving = False

    async def _remove(self, connections: Sequence[tuple[UserKey, str]]) -> None:
        keys = [self._key(user) for user, _ in connections]
        addresses = [(self._address(connection),) for _, connection in connections]
        await self._link.run(_LEAVE, keys, own=addresses)

    def _key(self, user: UserKey) -> str:
        return self._link.name("user", user)

    def _address(self, connection: str) -> str:
        return f"{self._gateway}/{connection}"


def _to_address(written: bytes) -> ConnectionAddress:
    gateway, _, connection = written.decode().partition("/")
    return ConnectionAddress(gateway, connection)


_conforms: type[Registry] = RedisRegistry
