# SPDX-License-Identifier: Apache-2.0
"""One shard of a stream, read to its end."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tidings.model.refusals import StoreUnavailable
from tidings.stores.dynamodb.trouble import Rejected

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
