# SPDX-License-Identifier: Apache-2.0
"""The streams of the tables: what was written, as DynamoDB itself tells it, for a day.

Keys only. A stream consists of shards, which end and are followed by others. Each is read by
itself, in no order among them: whoever asks here compares places, and a place never changes.
Reading begins with the oldest record there is; no place is kept, so a new process reads a day of
keys, a thousand at a time, and compares each chat once for all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import Change, Changes, ContentExpired, EntryWritten
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.errors import Rejected, StoreRefused
from tidings.stores.dynamodb.client.retrying import Budget, Retrying, gather_bounded
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.client.writes import item_from_wire
from tidings.stores.dynamodb.tables import BODIES, MESSAGES

RECORDS_MAX: Final = 1_000

_PLACE_LOST: Final = "TrimmedDataAccessException"
_ITERATOR_LOST: Final = frozenset({"ExpiredIteratorException", _PLACE_LOST})
_SHARD_LOST: Final = "ResourceNotFoundException"

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Carries out an operation, with retries; raises Rejected and StoreUnavailable."""


class Shard:
    """Remembers how far it was read; begins with the oldest record."""

    def __init__(self, call: Call, arn: str, name: str) -> None:
        self._call = call
        self._arn = arn
        self._name = name
        self._iterator: str | None = None
        self._last: str | None = None
        """The number of the last record read: an iterator is good for a quarter of an hour."""
        self.is_ended = False

    async def read(self) -> list[dict[str, Any]]:
        """The next records, if there are any.

        Raises:
            StoreUnavailable: Not now; the next call goes on from here.
        """
        try:
            return await self._read()
        except Rejected as rejected:
            if rejected.code == _SHARD_LOST:
                self.is_ended = True  # it is older than a day, and so is all that was in it
                return []
            if rejected.code not in _ITERATOR_LOST:
                raise StoreUnavailable from rejected
            self._iterator = None
            if rejected.code == _PLACE_LOST:
                self._last = None
            return []

    async def _read(self) -> list[dict[str, Any]]:
        if self._iterator is None:
            self._iterator = await self._new_iterator()
        answer = await self._call(
            "GetRecords", {"ShardIterator": self._iterator, "Limit": RECORDS_MAX}
        )
        records: list[dict[str, Any]] = answer["Records"]
        if records:
            self._last = records[-1]["dynamodb"]["SequenceNumber"]
        self._iterator = answer.get("NextShardIterator")
        self.is_ended = self._iterator is None
        return records

    async def _new_iterator(self) -> str:
        request = {"StreamArn": self._arn, "ShardId": self._name}
        if self._last is None:
            request["ShardIteratorType"] = "TRIM_HORIZON"
        else:
            request["ShardIteratorType"] = "AFTER_SEQUENCE_NUMBER"
            request["SequenceNumber"] = self._last
        answer = await self._call("GetShardIterator", request)
        return str(answer["ShardIterator"])


SHARDS_SECONDS: Final = 10.0
"""How often it is asked which shards there are; besides whenever one ends."""
CONNECTIONS: Final = 16

_Record = dict[str, Any]
_T = TypeVar("_T")


class TableStream:
    """The stream of one table."""

    def __init__(self, call: Call, arn: str, to_change: Callable[[_Record], Change | None]) -> None:
        self._call = call
        self._arn = arn
        self._to_change = to_change
        self._shards: dict[str, Shard] = {}
        self._looked_at: float | None = None

    async def poll(self) -> list[Change]:
        """Some changes of each shard; none if there are no more at the moment.

        Raises:
            StoreUnavailable: Nothing could be read. What was read is never lost by it.
        """
        await self._look_for_shards()
        shards = [shard for shard in self._shards.values() if not shard.is_ended]
        pages = await gather_bounded(partial(_read_or_none, shard.read) for shard in shards)
        if any(shard.is_ended for shard in shards):
            self._looked_at = None  # others have taken their place
        changes = (self._to_change(record) for record in _all_read(pages))
        return [change for change in changes if change is not None]

    async def _look_for_shards(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._looked_at is not None and now - self._looked_at < SHARDS_SECONDS:
            return
        there = await self._shard_names()
        self._shards = {name: self._shards.get(name) or self._shard(name) for name in there}
        self._looked_at = now

    def _shard(self, name: str) -> Shard:
        return Shard(self._call, self._arn, name)

    async def _shard_names(self) -> list[str]:
        request: dict[str, Any] = {"StreamArn": self._arn}
        names: list[str] = []
        while True:
            answer = (await self._call("DescribeStream", request))["StreamDescription"]
            names += [shard["ShardId"] for shard in answer["Shards"]]
            if "LastEvaluatedShardId" not in answer:
                return names
            request["ExclusiveStartShardId"] = answer["LastEvaluatedShardId"]


async def _read_or_none(read: Callable[[], Awaitable[list[_T]]]) -> list[_T] | None:
    """What one part has to tell, so that the others are heard whatever became of it."""
    try:
        return await read()
    except StoreUnavailable:
        return None


def _all_read(parts: Iterable[list[_T] | None]) -> list[_T]:
    """All that was read; refused only if that is nothing and something could not be."""
    parts = list(parts)
    found = [one for part in parts if part is not None for one in part]
    if not found and None in parts:
        raise StoreUnavailable
    return found


def to_written(record: _Record) -> Change | None:
    """A record of the log's stream: entries are written once, what changes later is no news."""
    if record["eventName"] != "INSERT":
        return None
    told = record["dynamodb"]
    place = item_from_wire(told["Keys"])
    at = int(float(told.get("ApproximateCreationDateTime", 0)) * 1_000)
    return EntryWritten(ChatId(place["chat_id"]), place["sequence"], at)


def to_cleaned(record: _Record) -> Change | None:
    """A record of the bodies' stream. Engines differ in how they name a deletion by TTL."""
    if record["eventName"] in {"INSERT", "MODIFY"}:
        return None
    key = item_from_wire(record["dynamodb"]["Keys"])
    sequence = key["body_id"].partition(".")[0]
    return ContentExpired(ChatId(key["chat_id"]), int(sequence)) if sequence.isdigit() else None


class DynamoChanges:
    """What the streams of both tables tell."""

    def __init__(self, streams: Sequence[TableStream]) -> None:
        self._streams = streams

    async def poll(self) -> Sequence[Change]:
        found = await gather_bounded(
            partial(_read_or_none, stream.poll) for stream in self._streams
        )
        return _all_read(found)


@asynccontextmanager
async def open_changes(
    *, endpoint: str | None, region: str, prefix: str, clock: Clock, chance: Chance
) -> AsyncIterator[DynamoChanges]:
    """Open the streams of the tables with this prefix.

    Raises:
        StoreRefused: A table is not there, or has no stream.
        StoreUnavailable: They cannot be reached.
    """
    retrying = Retrying(chance, Budget())
    async with (
        open_transport(endpoint=endpoint, region=region, clock=clock, connections=2) as tables,
        open_transport(
            endpoint=endpoint, region=region, clock=clock, connections=CONNECTIONS, streams=True
        ) as streams,
    ):
        about, call = _calls(retrying, tables), _calls(retrying, streams)
        yield DynamoChanges(
            [
                TableStream(call, await _arn(about, prefix + MESSAGES.name), to_written),
                TableStream(call, await _arn(about, prefix + BODIES.name), to_cleaned),
            ]
        )


def _calls(retrying: Retrying, transport: Transport) -> Call:
    def call(operation: str, request: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        return retrying.call(lambda until: transport.send(operation, request, until))

    return call


async def _arn(call: Call, table: str) -> str:
    try:
        answer = await call("DescribeTable", {"TableName": table})
    except Rejected as rejected:
        if rejected.code == "ResourceNotFoundException":
            raise StoreRefused(
                f"there is no table {table!r}: `tidings schema apply` makes it"
            ) from rejected
        raise StoreUnavailable from rejected
    arn: str | None = answer["Table"].get("LatestStreamArn")
    if arn is None:
        raise StoreRefused(
            f"the table {table!r} has no stream: `tidings schema apply` switches it on"
        )
    return arn


_conforms: type[Changes] = DynamoChanges
