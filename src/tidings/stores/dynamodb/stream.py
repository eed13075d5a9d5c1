# SPDX-License-Identifier: Apache-2.0
"""The relay's source of changes: the DynamoDB streams of the tables `messages` and `bodies`.

A stream keeps the keys of changed items for a day. It consists of shards; when a shard ends, others
follow it. Shards are read independently, so their records arrive in no particular order. The relay
does not need an order, because it compares sequences, and an entry never changes its sequence.

Positions are not stored: a new process begins with the oldest record and reads the keys of a whole
day. That is cheap, because it reads a thousand keys at a time, and the relay compares each chat
once for all keys of that chat. Each change has its time, so that deletions of long ago are not
passed on again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.delivery import Change, Changes, ContentExpired, EntryWritten
from tidings.ports.world import Chance, Clock
from tidings.stores.dynamodb.client.retrying import Budget, Rejected, Retrying, gather_bounded
from tidings.stores.dynamodb.client.transport import Transport, open_transport
from tidings.stores.dynamodb.client.writes import item_from_wire
from tidings.stores.dynamodb.tables import BODIES, MESSAGES

RECORDS_MAX: Final = 1_000

_POSITION_LOST: Final = "TrimmedDataAccessException"
_ITERATOR_LOST: Final = frozenset({"ExpiredIteratorException", _POSITION_LOST})
_SHARD_LOST: Final = "ResourceNotFoundException"

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Function that sends an operation with retries; may raise Rejected or StoreUnavailable."""
SHARDS_SECONDS: Final = 10.0
"""Interval at which the shards are listed; they are also listed when a shard ends."""
CONNECTIONS: Final = 16


class Shard:
    """Reads one shard of a stream, from its oldest record on."""

    def __init__(self, call: Call, arn: str, name: str) -> None:
        self._call = call
        self._arn = arn
        self._name = name
        self._iterator: str | None = None
        self._last: str | None = None
        """Number of the last record read, after which reading resumes if the iterator expires."""
        self.is_ended = False

    async def read(self) -> list[dict[str, Any]]:
        """Return the next records, if there are any.

        Raises:
            StoreUnavailable: Nothing could be read; the next call continues at the same record.
        """
        try:
            return await self._read()
        except Rejected as rejected:
            if rejected.code == _SHARD_LOST:
                self.is_ended = True  # the shard and all its records are older than a day
                return []
            if rejected.code not in _ITERATOR_LOST:
                raise StoreUnavailable from rejected
            self._iterator = None
            if rejected.code == _POSITION_LOST:
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


_Record = dict[str, Any]
_T = TypeVar("_T")


class TableStream:
    """Reads the stream of one table."""

    def __init__(self, call: Call, arn: str, to_change: Callable[[_Record], Change | None]) -> None:
        self._call = call
        self._arn = arn
        self._to_change = to_change
        self._shards: dict[str, Shard] = {}
        self._listed_at: float | None = None

    async def poll(self) -> list[Change]:
        """Return the next changes of every shard, or an empty list if there are none at present.

        Raises:
            StoreUnavailable: Nothing could be read; the next call continues at the same records.
        """
        await self._list_shards()
        shards = [shard for shard in self._shards.values() if not shard.is_ended]
        pages = await gather_bounded(partial(_read_or_error, shard.read) for shard in shards)
        if any(shard.is_ended for shard in shards):
            self._listed_at = None  # list the shards again, to find those that follow
        changes = (self._to_change(record) for record in _all_read(pages))
        return [change for change in changes if change is not None]

    async def _list_shards(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._listed_at is not None and now - self._listed_at < SHARDS_SECONDS:
            return
        names = await self._shard_names()
        self._shards = {name: self._shards.get(name) or self._shard(name) for name in names}
        self._listed_at = now

    def _shard(self, name: str) -> Shard:
        return Shard(self._call, self._arn, name)

    async def _shard_names(self) -> list[str]:
        request: dict[str, Any] = {"StreamArn": self._arn}
        names: list[str] = []
        while True:
            try:
                answer = (await self._call("DescribeStream", request))["StreamDescription"]
            except Rejected as rejected:
                raise StoreUnavailable from rejected
            names += [shard["ShardId"] for shard in answer["Shards"]]
            if "LastEvaluatedShardId" not in answer:
                return names
            request["ExclusiveStartShardId"] = answer["LastEvaluatedShardId"]


async def _read_or_error(read: Callable[[], Awaitable[list[_T]]]) -> list[_T] | Exception:
    """Call `read` and return its records; if it fails, return the error.

    An error that is raised would end the reads of other shards or tables, which would not return
    their records again.
    """
    try:
        return await read()
    except Exception as error:
        return error


def _all_read(parts: Iterable[list[_T] | Exception]) -> list[_T]:
    """Join the records of several shards or tables.

    If there is no record, raise the first error. If there are records, they are returned first: a
    read that failed begins at the same record next time.
    """
    found: list[_T] = []
    errors: list[Exception] = []
    for part in parts:
        if isinstance(part, Exception):
            errors.append(part)
        else:
            found += part
    if errors and not found:
        raise errors[0]
    return found


def to_written(record: _Record) -> Change | None:
    """Convert an insert in the log's stream to a change; return None for other records.

    Updates of an item are ignored, because they are not new entries.
    """
    if record["eventName"] != "INSERT":
        return None
    change = record["dynamodb"]
    key = item_from_wire(change["Keys"])
    return EntryWritten(ChatId(key["chat_id"]), key["sequence"], _time_of(change))


def to_cleaned(record: _Record) -> Change | None:
    """Convert a deletion in the bodies' stream to a change; return None for other records.

    Engines have different names for a deletion by TTL, so every event is treated as a deletion
    unless it is an insert or a modification.
    """
    if record["eventName"] in {"INSERT", "MODIFY"}:
        return None
    change = record["dynamodb"]
    key = item_from_wire(change["Keys"])
    sequence = key["body_id"].partition(".")[0]
    if not sequence.isdigit():
        return None
    return ContentExpired(ChatId(key["chat_id"]), int(sequence), _time_of(change))


def _time_of(change: dict[str, Any]) -> int:
    return int(float(change.get("ApproximateCreationDateTime", 0)) * 1_000)


class DynamoChanges:
    """Reads the changes from the streams of the tables `messages` and `bodies`."""

    def __init__(self, streams: Sequence[TableStream]) -> None:
        self._streams = streams

    async def poll(self) -> Sequence[Change]:
        found = await gather_bounded(
            partial(_read_or_error, stream.poll) for stream in self._streams
        )
        return _all_read(found)


@asynccontextmanager
async def open_changes(
    *, endpoint: str | None, region: str, prefix: str, clock: Clock, chance: Chance
) -> AsyncIterator[DynamoChanges]:
    """Open the streams of the tables with this prefix.

    Raises:
        SetupError: A table does not exist or has no stream.
        StoreUnavailable: The streams cannot be reached.
    """
    retrying = Retrying(chance, Budget())
    async with (
        open_transport(endpoint=endpoint, region=region, clock=clock, connections=2) as tables,
        open_transport(
            endpoint=endpoint, region=region, clock=clock, connections=CONNECTIONS, streams=True
        ) as streams,
    ):
        describe, call = _calls(retrying, tables), _calls(retrying, streams)
        yield DynamoChanges(
            [
                TableStream(call, await _arn(describe, prefix + MESSAGES.name), to_written),
                TableStream(call, await _arn(describe, prefix + BODIES.name), to_cleaned),
            ]
        )


def _calls(retrying: Retrying, transport: Transport) -> Call:
    def call(operation: str, request: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        return retrying.call(lambda deadline: transport.send(operation, request, deadline))

    return call


async def _arn(call: Call, table: str) -> str:
    try:
        answer = await call("DescribeTable", {"TableName": table})
    except Rejected as rejected:
        if rejected.code == "ResourceNotFoundException":
            raise SetupError(
                f"there is no table {table!r}: `tidings schema apply` creates it"
            ) from rejected
        raise StoreUnavailable from rejected
    arn: str | None = answer["Table"].get("LatestStreamArn")
    if arn is None:
        raise SetupError(f"the table {table!r} has no stream: `tidings schema apply` enables it")
    return arn


_conforms: type[Changes] = DynamoChanges
