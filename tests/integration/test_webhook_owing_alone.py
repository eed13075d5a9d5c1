# SPDX-License-Identifier: Apache-2.0
"""A single process on DynamoDB owes webhook endpoints every entry, also if it dies at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.integration.test_webhook_owing import an_endpoint, owed, owing
from tests.support.delivery import DeliveryDeployment, open_delivery
from tests.support.dynamo_tables import some_tables
from tests.support.users import ANN, BOB
from tests.support.waiting import until
from tidings.actions.webhooks.owing import RECENT_MS
from tidings.assembly.delivery import owe_before_head_copies
from tidings.delivery.chat_states import DISPATCHED_ENTRIES_MAX
from tidings.delivery.relay import Republisher
from tidings.model.entries import Head
from tidings.model.refusals import StoreUnavailable
from tidings.model.webhooks import OwedStream
from tidings.stores.dynamodb.inbox.webhook_queue import DynamoWebhookQueue


@pytest.fixture
async def prefix(dynamodb_endpoint: str) -> AsyncIterator[str]:
    async with some_tables(dynamodb_endpoint) as name:
        yield name


@asynccontextmanager
async def a_process(endpoint: str, prefix: str, folder: Path) -> AsyncIterator[DeliveryDeployment]:
    async with open_delivery(endpoint, prefix, folder, is_alone=True) as delivery:
        owe_before_head_copies(delivery.store.deliveries, owing(delivery))
        yield delivery


async def test_what_a_dying_process_did_not_owe_is_owed_by_the_next(
    dynamodb_endpoint: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> None:
        raise StoreUnavailable

    async with a_process(dynamodb_endpoint, prefix, tmp_path) as first:
        endpoint = await an_endpoint(first, "alone")
        with monkeypatch.context() as dying:
            dying.setattr(DynamoWebhookQueue, "owe", dies)
            chat = await first.chat(ANN, BOB)
            head = 1
            while head <= DISPATCHED_ENTRIES_MAX:
                head = (await first.send(ANN, chat)).sequence
            await first.store.heads.close()
        assert await first.head(chat) == 0, "the relay looks at the entries again"
        assert await owed(first, endpoint, chat) is None

    async with a_process(dynamodb_endpoint, prefix, tmp_path) as second:
        store = second.store
        relayed = Republisher(store.log, store.deliveries, second.vault, second.bus, second.clock)
        await relayed.deliver(chat, after=0, up_to=head)
        assert await second.head(chat) == head
        assert await owed(second, endpoint, chat) == OwedStream(chat, 0, head)


async def test_a_process_owes_entries_as_it_appends_them(
    dynamodb_endpoint: str, prefix: str, tmp_path: Path
) -> None:
    async with a_process(dynamodb_endpoint, prefix, tmp_path) as delivery:
        endpoint = await an_endpoint(delivery, "alone")
        chat = await delivery.chat(ANN, BOB)
        sent = await delivery.send(ANN, chat)

        async def has_all() -> bool:
            return await owed(delivery, endpoint, chat) == OwedStream(chat, 0, sent.sequence)

        await until(has_all)


async def test_a_head_that_is_read_again_after_a_restart_owes_nothing(
    dynamodb_endpoint: str, prefix: str, tmp_path: Path
) -> None:
    async with a_process(dynamodb_endpoint, prefix, tmp_path) as first:
        endpoint = await an_endpoint(first, "alone")
        chat = await first.chat(ANN, BOB)
        head = (await first.send(ANN, chat)).sequence
    async with a_process(dynamodb_endpoint, prefix, tmp_path) as second:
        queue = second.store.webhook_queue
        await queue.advance(endpoint.place, OwedStream(chat, head, head))
        second.store.heads.looked(chat, Head(sequence=head))
        await second.store.heads.settled(chat)
        assert await owed(second, endpoint, chat) is None


async def test_an_endpoint_that_is_enabled_again_does_not_get_old_entries_once_more(
    dynamodb_endpoint: str, prefix: str, tmp_path: Path
) -> None:
    async with a_process(dynamodb_endpoint, prefix, tmp_path) as first:
        endpoint = await an_endpoint(first, "alone")
        chat = await first.chat(ANN, BOB)
        head = (await first.send(ANN, chat)).sequence
        await first.store.heads.settled(chat)
    disabled = msgspec.structs.replace(endpoint, enabled=False, revision=2)
    async with open_delivery(dynamodb_endpoint, prefix, tmp_path, is_alone=True) as second:
        owe, webhooks = owing(second), second.store.webhooks
        owe_before_head_copies(second.store.deliveries, owe)
        await second.store.webhook_queue.advance(endpoint.place, OwedStream(chat, head, head))
        second.clock.time += 2 * RECENT_MS
        assert await webhooks.change(endpoint, disabled)
        missed = (await second.send(ANN, chat)).sequence
        await second.store.heads.settled(chat)
        assert await webhooks.change(disabled, msgspec.structs.replace(endpoint, revision=3))
        await owe.catch_up(endpoint)
        assert await owed(second, endpoint, chat) == OwedStream(chat, head, missed)
        sent = (await second.send(ANN, chat)).sequence
        await second.store.heads.settled(chat)
        assert await owed(second, endpoint, chat) == OwedStream(chat, head, sent)
