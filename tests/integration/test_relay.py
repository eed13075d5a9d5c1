# SPDX-License-Identifier: Apache-2.0
"""The relay on real streams: what nobody delivered is told of again, or delivered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.canary import MARK
from tests.support.delivery import DeliveryDeployment, open_delivery
from tests.support.dynamo_tables import REGION, new_prefix, some_tables
from tests.support.users import ANN, BOB
from tests.support.waiting import WAIT_SECONDS, until
from tidings.assembly.system import SystemChance, SystemClock
from tidings.delivery import relay as relay_module
from tidings.delivery.relay import Delivers, Relay, Republisher
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.bus import Appended, Event, Expired
from tidings.ports.delivery import Changes, ContentExpired, EntryWritten
from tidings.stores.dynamodb.chat.items import body_key
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.stream import open_changes


@dataclass
class Ground:
    """An delivery with the changes of its tables."""

    delivery: DeliveryDeployment
    changes: Changes
    hints: list[tuple[ChatId, int]] = field(default_factory=list)
    cleaned: list[tuple[ChatId, tuple[int, ...], bool]] = field(default_factory=list)
    is_kafka_there: bool = True

    def relay(self, deliverer: Delivers | None = None, *, hints: bool = True) -> Relay:
        """A relay whose hints are kept here; it runs only when a turn is asked for."""
        return Relay(
            self.changes,
            self.delivery.store.deliveries,
            deliverer or self.delivery.deliverer(),
            # Streams go by the clock of the machine.
            SystemClock(),
            hint=self._hint if hints else None,
            cleaned=self._note_cleaned,
        )

    def _note_cleaned(self, expired: Expired, is_new: bool) -> None:
        assert expired.minute is not None
        assert 0 <= SystemClock().now() - expired.minute < 3 * relay_module.MINUTE_MS
        self.cleaned.append((expired.chat, expired.sequences, is_new))

    async def _hint(self, chat: ChatId, sequence: int) -> bool:
        if self.is_kafka_there:
            self.hints.append((chat, sequence))
        return self.is_kafka_there


@pytest.fixture
async def ground(dynamodb_endpoint: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        open_delivery(dynamodb_endpoint, prefix, tmp_path) as delivery,
        open_streams(dynamodb_endpoint, prefix) as changes,
    ):
        yield Ground(delivery, changes)


@asynccontextmanager
async def open_streams(endpoint: str, prefix: str) -> AsyncIterator[Changes]:
    async with open_changes(
        endpoint=endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as changes:
        yield changes


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is due at once, and again at once."""
    monkeypatch.setattr(relay_module, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(relay_module, "AGAIN_SECONDS_FIRST", 0.0)


async def turns(relay: Relay, done: Callable[[], bool]) -> None:
    """Take turns until something has happened."""

    async def turn() -> bool:
        await relay.turn()
        return done()

    await until(turn)


async def test_the_streams_tell_of_entries_and_of_deleted_bodies(ground: Ground) -> None:
    began = SystemClock().now()
    delivery = ground.delivery
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat)
    await delivery.send(ANN, chat, "brief", ttl_seconds=60)
    await delivery.redact(chat, 3)  # deletes the body
    seen: list[object] = []

    async def all_told() -> bool:
        seen.extend(await ground.changes.poll())
        return len(seen) >= 5

    await until(all_told)
    written = [one for one in seen if isinstance(one, EntryWritten)]
    assert [(one.chat, one.sequence) for one in written] == [(chat, n) for n in (1, 2, 3, 4)]
    # DynamoDB Local rounds the time down to the minute.
    assert began - 60_000 < written[0].at <= SystemClock().now()
    (cleaned,) = [one for one in seen if isinstance(one, ContentExpired)]
    assert (cleaned.chat, cleaned.sequence) == (chat, 3)
    assert began - 60_000 < cleaned.at <= SystemClock().now()
    assert await ground.changes.poll() == []


@pytest.mark.usefixtures("no_delay")
async def test_what_nobody_delivered_is_told_of_once_for_a_chat(ground: Ground) -> None:
    delivery, relay = ground.delivery, ground.relay()
    lost, fine = await delivery.chat(ANN, BOB), await delivery.chat(ANN, BOB)
    for _ in range(3):
        await delivery.send(ANN, lost)
    await delivery.deliverer().deliver(fine, after=0, up_to=1)
    await turns(relay, lambda: bool(ground.hints))
    assert set(ground.hints) == {(lost, 4)}
    # Once it has been delivered, nothing is owed any more.
    await delivery.deliverer().deliver(lost, after=0, up_to=4)
    told = len(ground.hints)
    await turns(relay, lambda: relay.compared >= 3)
    await relay.turn()
    compared = relay.compared
    await relay.turn()
    assert (len(ground.hints), relay.compared) == (told, compared)


async def test_what_was_written_just_now_has_time_to_be_delivered(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "LATE_SECONDS", 60.0)
    relay = ground.relay()
    await ground.delivery.chat(ANN, BOB)
    for _ in range(5):
        await relay.turn()
    assert relay.compared == 0
    assert ground.hints == []


async def test_what_is_old_is_compared_at_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "LATE_SECONDS", 60.0)
    monkeypatch.setattr(relay_module, "OLD_MS", -60_000)
    relay = ground.relay()
    chat = await ground.delivery.chat(ANN, BOB)
    await turns(relay, lambda: ground.hints == [(chat, 1)])


@pytest.mark.usefixtures("no_delay")
async def test_without_kafka_the_relay_delivers_by_itself(ground: Ground) -> None:
    delivery, relay = ground.delivery, ground.relay()
    ground.is_kafka_there = False
    chat = await delivery.chat(ANN, BOB)
    device = delivery.gateways.connect(BOB)
    await delivery.send(ANN, chat, "by the relay")
    await turns(relay, lambda: relay.delivered > 0)
    assert device.sequences == [1, 2]
    assert device.frame(2)["content"] == f"{MARK} by the relay"
    assert await delivery.head(chat) == 2


@pytest.mark.usefixtures("no_delay")
async def test_if_nobody_listens_the_relay_delivers_in_the_end(ground: Ground) -> None:
    delivery, relay = ground.delivery, ground.relay()
    chat = await delivery.chat(ANN, BOB)
    await turns(relay, lambda: relay.delivered > 0)
    assert ground.hints == [(chat, 1)] * 2
    assert await delivery.head(chat) == 1


@pytest.mark.usefixtures("no_delay")
async def test_one_process_tells_its_own_bus(ground: Ground) -> None:
    delivery = ground.delivery
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat, "again")
    heard: list[Event] = []
    delivery.bus.subscribe(heard.append)
    own = Republisher(
        delivery.store.log, delivery.store.deliveries, delivery.vault, delivery.bus, delivery.clock
    )
    relay = ground.relay(own, hints=False)
    await turns(relay, lambda: relay.delivered > 0)
    entries = [event.entry for event in heard if isinstance(event, Appended)]
    assert [entry.sequence for entry in entries] == [1, 2]
    assert entries[1].content == f"{MARK} again"
    assert await delivery.head(chat) == 2


@pytest.mark.usefixtures("no_delay")
async def test_deletions_by_ttl_are_passed_on(ground: Ground) -> None:
    delivery, relay = ground.delivery, ground.relay()
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat, "brief", ttl_seconds=60)
    await delete_bodies(delivery, chat)
    await turns(relay, lambda: bool(ground.cleaned))
    assert ground.cleaned == [(chat, (2,), True)]


@pytest.mark.usefixtures("no_delay")
async def test_deletions_of_long_ago_are_not_passed_on_as_new(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each relay that starts reads the deletions of a whole day."""
    monkeypatch.setattr(relay_module, "OLD_MS", -60_000)
    delivery, relay = ground.delivery, ground.relay()
    chat = await delivery.chat(ANN, BOB)
    await delivery.send(ANN, chat, "brief", ttl_seconds=60)
    await delete_bodies(delivery, chat)
    await turns(relay, lambda: bool(ground.cleaned))
    assert ground.cleaned == [(chat, (2,), False)]


async def delete_bodies(delivery: DeliveryDeployment, chat: ChatId) -> None:
    """As DynamoDB does when their time has come."""
    dynamo = delivery.store.log._dynamo
    query = Pattern("test_bodies", "Query", ("bodies",), "a test")
    delete = Pattern("test_delete", "DeleteItem", ("bodies",), "a test")
    for item in await dynamo.query(query, "#chat_id = :chat", {":chat": chat}):
        await dynamo.delete(delete, body_key(chat, item["body_id"]))


@pytest.mark.usefixtures("no_delay")
async def test_a_chat_that_cannot_be_delivered_is_given_up(ground: Ground) -> None:
    class Broken:
        async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
            raise ValueError((chat, after, up_to))

    relay = ground.relay(Broken(), hints=False)
    await ground.delivery.chat(ANN, BOB)
    await turns(relay, lambda: relay.given_up == 1)
    behind = relay.behind
    await relay.turn()
    assert relay.behind == behind == relay_module.ATTEMPTS_MAX


@pytest.mark.usefixtures("no_delay")
async def test_what_was_read_is_owed_until_the_store_answers(ground: Ground) -> None:
    delivery = ground.delivery

    class Away:
        times = 2 * relay_module.ATTEMPTS_MAX

        async def deliver(self, chat: ChatId, *, after: int, up_to: int) -> None:
            if self.times:
                self.times -= 1
                raise StoreUnavailable
            await delivery.deliverer().deliver(chat, after=after, up_to=up_to)

    relay = ground.relay(Away(), hints=False)
    chat = await delivery.chat(ANN, BOB)
    await turns(relay, lambda: relay.delivered == 1)
    assert await delivery.head(chat) == 1


async def test_a_running_relay_ends_when_it_is_told_to(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(relay_module, "PAUSE_SECONDS", 0.01)
    relay = ground.relay()
    chat = await ground.delivery.chat(ANN, BOB)
    relay.start()
    await until(lambda: ground.hints == [(chat, 1)])
    async with asyncio.timeout(WAIT_SECONDS):
        await relay.close()


async def test_tables_without_a_stream_are_refused(dynamodb_endpoint: str) -> None:
    with pytest.raises(SetupError, match="there is no table"):
        async with open_streams(dynamodb_endpoint, new_prefix()):
            pass
