# SPDX-License-Identifier: Apache-2.0
"""Shards of a stream: iterators that run out, shards that end and split, trouble in one of them."""

from typing import Any

import pytest

from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.ports.delivery import ContentExpired, EntryWritten
from tidings.stores.dynamodb import stream
from tidings.stores.dynamodb.client.retrying import Rejected
from tidings.stores.dynamodb.stream import DynamoChanges, Shard, TableStream, to_cleaned, to_written

CHAT = ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ")


def record(number: int, name: str = "INSERT") -> dict[str, Any]:
    keys = {"chat_id": {"S": CHAT}, "sequence": {"N": str(number)}}
    return {
        "eventName": name,
        "dynamodb": {
            "Keys": keys,
            "SequenceNumber": f"s{number}",
            "ApproximateCreationDateTime": 1_800_000_000.5,
        },
    }


class Streams:
    """Speaks as DynamoDB Streams do: shards with records, some of them closed."""

    def __init__(self) -> None:
        self.shards: dict[str, list[dict[str, Any]]] = {}
        self.closed: set[str] = set()
        self.fails: dict[str, Exception] = {}
        self.page = 2
        self.asked: list[str] = []

    async def __call__(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(operation)
        match operation:
            case "DescribeStream":
                if (error := self.fails.pop(operation, None)) is not None:
                    raise error
                return self._describe(request.get("ExclusiveStartShardId"))
            case "GetShardIterator":
                return {"ShardIterator": f"{request['ShardId']}/{self._start(request)}"}
            case _:
                return self._records(request["ShardIterator"])

    def _describe(self, after: str | None) -> dict[str, Any]:
        names = sorted(self.shards)
        rest = [name for name in names if after is None or name > after]
        answer: dict[str, Any] = {"Shards": [{"ShardId": name} for name in rest[:1]]}
        if len(rest) > 1:
            answer["LastEvaluatedShardId"] = rest[0]
        return {"StreamDescription": answer}

    def _start(self, request: dict[str, Any]) -> int:
        if request["ShardIteratorType"] == "TRIM_HORIZON":
            return 0
        numbers = [one["dynamodb"]["SequenceNumber"] for one in self.shards[request["ShardId"]]]
        return numbers.index(request["SequenceNumber"]) + 1

    def _records(self, iterator: str) -> dict[str, Any]:
        name, _, place = iterator.partition("/")
        if name in self.fails:
            raise self.fails.pop(name)
        records = self.shards[name][int(place) : int(place) + self.page]
        answer: dict[str, Any] = {"Records": records}
        after = int(place) + len(records)
        if not (name in self.closed and after == len(self.shards[name])):
            answer["NextShardIterator"] = f"{name}/{after}"
        return answer


@pytest.fixture
def streams() -> Streams:
    return Streams()


def numbers(records: list[dict[str, Any]]) -> list[str]:
    return [one["dynamodb"]["SequenceNumber"] for one in records]


async def test_a_shard_is_read_page_by_page_and_goes_on_where_it_was(streams: Streams) -> None:
    streams.shards["a"] = [record(1), record(2), record(3)]
    shard = Shard(streams, "arn", "a")
    assert numbers(await shard.read()) == ["s1", "s2"]
    streams.fails["a"] = Rejected("ExpiredIteratorException", "too old")
    assert await shard.read() == []
    assert numbers(await shard.read()) == ["s3"]
    assert not shard.is_ended


async def test_a_place_that_is_older_than_a_day_is_given_up(streams: Streams) -> None:
    streams.shards["a"] = [record(1), record(2), record(3)]
    shard = Shard(streams, "arn", "a")
    await shard.read()
    streams.fails["a"] = Rejected("TrimmedDataAccessException", "gone")
    assert await shard.read() == []
    assert numbers(await shard.read()) == ["s1", "s2"]


async def test_a_shard_that_is_gone_has_ended(streams: Streams) -> None:
    streams.shards["a"] = []
    shard = Shard(streams, "arn", "a")
    streams.fails["a"] = Rejected("ResourceNotFoundException", "no such shard")
    assert await shard.read() == []
    assert shard.is_ended


async def test_shards_that_follow_an_ended_one_are_found_at_once(streams: Streams) -> None:
    streams.shards["a"] = [record(1)]
    streams.closed.add("a")
    table = TableStream(streams, "arn", to_written)
    assert [one.sequence for one in await table.poll()] == [1]
    streams.shards |= {"b": [record(2)], "c": [record(3)]}
    assert sorted(one.sequence for one in await table.poll()) == [2, 3]
    assert await table.poll() == []


async def test_shards_are_looked_for_now_and_then(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.shards["a"] = [record(1)]
    table = TableStream(streams, "arn", to_written)
    await table.poll()
    await table.poll()
    assert streams.asked.count("DescribeStream") == 1
    streams.shards["b"] = [record(2)]
    monkeypatch.setattr(stream, "SHARDS_SECONDS", 0.0)
    assert [one.sequence for one in await table.poll()] == [2]


async def test_what_one_shard_told_is_not_lost_by_the_trouble_of_another(streams: Streams) -> None:
    streams.shards |= {"a": [record(1)], "b": [record(2)]}
    streams.fails["b"] = StoreUnavailable()
    changes = DynamoChanges([TableStream(streams, "arn", to_written)])
    assert [one.sequence for one in await changes.poll()] == [1]
    streams.fails["a"] = StoreUnavailable()
    streams.fails["b"] = StoreUnavailable()
    with pytest.raises(StoreUnavailable):
        await changes.poll()
    assert [one.sequence for one in await changes.poll()] == [2]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (StoreUnavailable(), StoreUnavailable),
        (Rejected("LimitExceededException", "too many readers"), StoreUnavailable),
        (KeyError("Records"), KeyError),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("order", [1, -1])
async def test_what_one_table_told_is_not_lost_by_the_trouble_of_another(
    streams: Streams, error: Exception, raised: type[Exception], order: int
) -> None:
    other = Streams()
    streams.shards["a"], other.shards["b"] = [record(1)], [record(2)]
    tables = [TableStream(one, "arn", to_written) for one in (streams, other)]
    changes = DynamoChanges(tables[::order])
    other.fails["DescribeStream"] = error
    assert [one.sequence for one in await changes.poll()] == [1]
    other.fails["DescribeStream"] = error
    with pytest.raises(raised):
        await changes.poll()
    assert [one.sequence for one in await changes.poll()] == [2]


def test_only_new_entries_are_news() -> None:
    assert to_written(record(5)) == EntryWritten(CHAT, 5, 1_800_000_000_500)
    assert to_written(record(5, "MODIFY")) is None


@pytest.mark.parametrize("name", ["REMOVE", "UNKNOWN_TO_SDK_VERSION"])
def test_a_deleted_body_tells_where_its_message_stands(name: str) -> None:
    key = {"chat_id": {"S": CHAT}, "body_id": {"S": "0000000000000012.ab34"}}
    change = {"Keys": key, "ApproximateCreationDateTime": 1_800_000_000.5}
    told = to_cleaned({"eventName": name, "dynamodb": change})
    assert told == ContentExpired(CHAT, 12, 1_800_000_000_500)
    assert to_cleaned({"eventName": "INSERT", "dynamodb": change}) is None
    key["body_id"] = {"S": "something else"}
    assert to_cleaned({"eventName": name, "dynamodb": change}) is None
