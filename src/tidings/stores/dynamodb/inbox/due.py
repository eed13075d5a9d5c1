# SPDX-License-Identifier: Apache-2.0
"""Items that become due, on DynamoDB, in the table of inboxes.

The items of a kind are divided into shards, and those of a shard into buckets of ten minutes. A
bucket of a shard is a partition, in which the items are sorted by time. The process that has the
lease on a shard reads the bucket of the present time. It reads a bucket until its ten minutes are
over and it is empty. The first bucket that still has to be read is stored with the lease. Therefore
nothing is missed after an outage, and nothing is ever scanned.

No item is put into a bucket that is over. The first item that a deployment stores also stores its
bucket, with which the first lease on each shard begins.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from zlib import crc32

from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.scheduled import SETTLE_MS
from tidings.ports.due import LEASE_MS, Due, DueItems, DueKind
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.inbox import due_patterns as patterns
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

BUCKET_MS: Final = 600 * SECOND_MS
SHARDS: Final = 8
BUCKETS_AT_ONCE: Final = 16
BUCKETS_MAX: Final = 1_000
"""Number of buckets that one call reads at most: a week. After a longer outage, several calls are
needed."""
_BEGIN: Final = "begin"
_SHARD: Final = "s#"
_PROCESS: Final = "p#"
_MAY_LEASE: Final = "attribute_not_exists(#holder) OR #holder = :holder OR #leased_until <= :now"
_IS_NOT_NEWER: Final = "attribute_not_exists(#made_at) OR #made_at <= :made_at"
_FIELDS: Final = ("kind", "at", "item_id", "subject", "tenant", "made_at")


class DynamoDueItems:
    """Stores items for all processes, which share the shards by leases."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._begun: set[DueKind] = set()
        self._low: dict[tuple[DueKind, int], int] = {}
        """For each shard that this process has: the first bucket that may have items."""

    async def put(self, due: Due, now: int) -> None:
        if due.kind not in self._begun:
            await begin_at(self._dynamo, due.kind, now)
            self._begun.add(due.kind)
        await self._dynamo.put(patterns.PUT_DUE, due_item(due, now))

    async def lease(self, kind: DueKind, holder: str, now: int) -> Sequence[int]:
        items = await self._dynamo.query(
            patterns.READ_SHARDS, "#pk = :leases", {":leases": _leases_of(kind)}
        )
        found = {item["sk"]: item for item in items}
        if _BEGIN not in found:
            return []  # the deployment has never had an item of this kind
        leases = {shard: found.get(f"{_SHARD}{shard}", {}) for shard in range(SHARDS)}
        holders = {shard: _holder(leases[shard], now) for shard in leases}
        own = [shard for shard in holders if holders[shard] == holder]
        if not own:
            await self._wait(kind, holder, now)
        share = _share(holder, {*filter(None, holders.values()), *_waiting(items, now)})
        free = [shard for shard in holders if holders[shard] is None]
        kept = own[:share] + free[: max(0, share - len(own))]
        begin: int = found[_BEGIN]["low"]
        for shard in kept:
            self._low.setdefault((kind, shard), leases[shard].get("low", begin))
        for shard in own[share:]:
            await self._give_back(kind, shard, holder)
        old = [shard for shard in kept if _holder(leases[shard], now + LEASE_MS // 2) != holder]
        await gather_bounded(partial(self._take, kind, shard, holder, now) for shard in old)
        for shard in holders.keys() - set(kept):
            self._low.pop((kind, shard), None)
        return [shard for shard in kept if (kind, shard) in self._low]

    async def _wait(self, kind: DueKind, holder: str, now: int) -> None:
        """Let the others know that this process has no shard, so that they give some back."""
        waiting: Item = {"pk": _leases_of(kind), "sk": f"{_PROCESS}{holder}"}
        times = {"leased_until": now + LEASE_MS, TTL: ttl_seconds(now + DAY_MS)}
        await self._dynamo.put(patterns.JOIN_SHARDS, waiting | times)

    async def _take(self, kind: DueKind, shard: int, holder: str, now: int) -> None:
        update = "SET #holder = :holder, #leased_until = :until, #low = :low"
        low = self._low[kind, shard]
        values = {":holder": holder, ":until": now + LEASE_MS, ":low": low, ":now": now}
        key = _shard_key(kind, shard)
        try:
            await self._dynamo.update(patterns.LEASE_SHARD, key, update, _MAY_LEASE, values)
        except ConditionFailed:
            self._low.pop((kind, shard), None)  # another process was faster

    async def _give_back(self, kind: DueKind, shard: int, holder: str) -> None:
        low = self._low.pop((kind, shard), None)
        if low is None:
            return
        update = "SET #leased_until = :none, #low = :low"
        values = {":none": 0, ":low": low, ":holder": holder}
        key = _shard_key(kind, shard)
        with suppress(ConditionFailed):
            await self._dynamo.update(
                patterns.LEASE_SHARD, key, update, "#holder = :holder", values
            )

    async def give_back(self, kind: DueKind, holder: str) -> None:
        own = [shard for shard in range(SHARDS) if (kind, shard) in self._low]
        await gather_bounded(partial(self._give_back, kind, shard, holder) for shard in own)
        waiting = {"pk": _leases_of(kind), "sk": f"{_PROCESS}{holder}"}
        await self._dynamo.delete(patterns.LEAVE_SHARDS, waiting)

    async def read(
        self,
        kind: DueKind,
        shard: int,
        now: int,
        limit: int,
        without: Sequence[str] = (),
        after: Due | None = None,
        since: int = 0,
    ) -> list[Due]:
        due: list[Due] = []
        current, first = now // BUCKET_MS, self._low.get((kind, shard), now // BUCKET_MS + 1)
        # An item that was stored late is in the bucket of that time.
        first = max(first, since // BUCKET_MS, 0 if after is None else _bucket_of(after))
        last = min(current, first + BUCKETS_MAX)
        for start in range(first, last + 1, BUCKETS_AT_ONCE):
            buckets = range(start, min(start + BUCKETS_AT_ONCE, last + 1))
            found = await gather_bounded(
                partial(self._bucket, kind, shard, bucket, now, limit, without, after, since)
                for bucket in buckets
            )
            for bucket, some in zip(buckets, found, strict=True):
                due += some
                is_over = (bucket + 1) * BUCKET_MS + SETTLE_MS <= now
                is_whole = not without and after is None and not since
                if is_over and not due and is_whole and (kind, shard) in self._low:
                    self._low[kind, shard] = bucket + 1
            if len(due) >= limit:
                break
        return due[:limit]

    async def _bucket(
        self,
        kind: DueKind,
        shard: int,
        bucket: int,
        now: int,
        limit: int,
        without: Sequence[str],
        after: Due | None,
        since: int,
    ) -> list[Due]:
        """Return items of one bucket. A bucket that is over is read strongly, because it is never
        read again once it is empty."""
        pattern = patterns.READ_DUE if bucket == now // BUCKET_MS else patterns.CHECK_DUE
        place = _place(kind, bucket, shard)
        # No id has a space, which sorts before everything by which a longer id could continue.
        behind = f"{_sort_key(after)} " if after is not None and after.place == place else "0"
        begin = max(behind, f"{since:015d}")
        values: Item = {":place": place, ":begin": begin, ":now": f"{now:015d}~"}
        where = "#pk = :place AND #sk BETWEEN :begin AND :now"
        names = {f":t{index}": tenant for index, tenant in enumerate(without)}
        only = f"NOT #tenant IN ({', '.join(names)})" if names else ""
        items = await self._dynamo.query(
            pattern, where, {**values, **names}, only=only, limit=limit
        )
        return [to_due(item) for item in items[:limit]]

    async def drop(self, due: Due) -> None:
        made_at = {":made_at": due.made_at}
        with suppress(ConditionFailed):
            await self._dynamo.delete(patterns.DROP_DUE, _found_key(due), _IS_NOT_NEWER, made_at)

    async def drop_done(self, dues: Sequence[Due]) -> None:
        await self._dynamo.batch_write(patterns.DROP_ALL_DUE, deletes=map(_found_key, dues))


async def begin_at(dynamo: Dynamo, kind: DueKind, at: int) -> None:
    """Store that there may be items of this time, for the first lease on each shard."""
    key, low = {"pk": _leases_of(kind), "sk": _BEGIN}, at // BUCKET_MS
    condition = "attribute_not_exists(#low) OR #low > :low"
    with suppress(ConditionFailed):
        await dynamo.update(patterns.BEGIN_DUE, key, "SET #low = :low", condition, {":low": low})


async def has_due(dynamo: Dynamo, due: Due) -> bool:
    """Return True if the item is stored in the bucket of its time."""
    return await dynamo.get(patterns.FIND_DUE, due_key(due, due.at)) is not None


def due_key(due: Due, now: int) -> Item:
    """Return the key of an item that is stored at `now`. Its bucket is not over at that time."""
    shard = crc32(due.item_id.encode()) % SHARDS
    place = _place(due.kind, max(due.at, now) // BUCKET_MS, shard)
    return {"pk": place, "sk": _sort_key(due)}


def _found_key(due: Due) -> Item:
    """Return the key under which an item was found; of one that was not read, the key at its
    time."""
    return {**due_key(due, due.at), **({"pk": due.place} if due.place else {})}


def due_item(due: Due, now: int) -> Item:
    """Convert an item that becomes due to its stored form."""
    return {**due_key(due, now), **{name: getattr(due, name) for name in _FIELDS}}


def to_due(item: Item) -> Due:
    """Convert a stored item to a `Due`."""
    return Due(**{name: item[name] for name in _FIELDS}, place=item["pk"])


def _place(kind: DueKind, bucket: int, shard: int) -> str:
    return f"d#{kind}#{bucket}#{shard}"


def _sort_key(due: Due) -> str:
    return f"{due.at:015d}#{due.item_id}"


def _bucket_of(due: Due) -> int:
    """Return the bucket in which an item was found."""
    return int(due.place.split("#")[2])


def _leases_of(kind: DueKind) -> str:
    return f"d#{kind}"


def _shard_key(kind: DueKind, shard: int) -> Item:
    return {"pk": _leases_of(kind), "sk": f"{_SHARD}{shard}"}


def _holder(item: Item, now: int) -> str | None:
    """Return the process that has the lease on a shard; None if the shard is free."""
    return item.get("holder") if item.get("leased_until", 0) > now else None


def _waiting(items: list[Item], now: int) -> set[str]:
    """Return the processes that had no shard when they last asked, not long ago."""
    waiting = (item for item in items if item["sk"].startswith(_PROCESS))
    return {item["sk"].removeprefix(_PROCESS) for item in waiting if item["leased_until"] > now}


def _share(holder: str, others: set[str]) -> int:
    """Return how many shards a process should have. The shares of all processes add up to all
    shards."""
    holders = sorted({holder, *others})
    least, more = divmod(SHARDS, len(holders))
    return least + (holders.index(holder) < more)


_conforms: type[DueItems] = DynamoDueItems
