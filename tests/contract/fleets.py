# SPDX-License-Identifier: Apache-2.0
"""Gateways of a fleet on tables: nothing is copied until delivery does it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.builders import (
    a_chat,
    append,
)
from tests.contract.preview_rules import broken_previews
from tests.support.clock import NOW
from tests.support.dynamo_tables import open_tables
from tests.support.spare_tables import spare_tables
from tests.support.users import ANN, BOB
from tidings.model.chats import ChatRow, ChatState, ChatType, OwnSends, OwnSpan
from tidings.model.entries import Entry, Head, head_of
from tidings.model.ids import UserKey
from tidings.stores.dynamodb.chat import heads
from tidings.stores.dynamodb.chat.items import receipt_key
from tidings.stores.dynamodb.client.access import Usage
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.patterns import READ_CHAT, READ_RECEIPT
from tidings.stores.dynamodb.store import DynamoStore

KINDS: tuple[ChatType, ...] = ("direct", "group")


@dataclass
class Fleet:
    """Tables, the gateway that writes, and what another gateway uses to read."""

    endpoint: str
    prefix: str
    writer: DynamoStore
    used: list[Usage] = field(default_factory=list)

    @property
    def dynamo(self) -> Dynamo:
        return self.writer.chats._dynamo

    def another(self) -> AbstractAsyncContextManager[DynamoStore]:
        """Another gateway, which has seen nothing yet."""
        return open_tables(self.endpoint, self.prefix, writes_heads=False, record=self.used.append)

    async def listed(self, user: UserKey = BOB) -> ChatRow:
        """The only chat of a user, through a process that has seen nothing."""
        async with self.another() as store:
            self.used.clear()
            (row,) = await store.chats.listing(user, below=None, limit=9, now=NOW)
        return row

    @property
    def reads(self) -> set[str]:
        """The patterns by which the last list was read."""
        return {usage.pattern.name for usage in self.used}

    async def chat(self, kind: ChatType, *entries: Entry) -> ChatState:
        """A chat of two with these entries, all delivered."""
        state = await a_chat(self.writer, ANN, BOB, kind=kind)
        for entry in entries:
            await append(self.writer, state, entry)
        await self.deliver(state, *entries)
        return state

    async def deliver(self, state: ChatState, *entries: Entry) -> None:
        """Write the head copy for these entries, as delivery does."""
        if not entries:
            await self.writer.deliveries.advance(state.chat_id, Head(1, 0, 0, NOW), None)
            return
        end = entries[-1]
        last = next((one for one in entries if one.sequence == end.last_message), None)
        await self.writer.deliveries.advance(state.chat_id, head_of(end), last)

    async def copies(self, state: ChatState) -> list[dict[str, Any]]:
        """The items that have a copy of the chat's head."""
        keys = [receipt_key(user, state.chat_id) for user in state.members]
        if state.type == "group":
            found = [await self.dynamo.get(READ_CHAT, {"chat_id": state.chat_id})]
        else:
            found = [await self.dynamo.get(READ_RECEIPT, key) for key in keys]
        return [item for item in found if item is not None]


@asynccontextmanager
async def a_fleet(endpoint: str) -> AsyncIterator[Fleet]:
    """Tables for a while; no copy that is left breaks the rule."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "WRITE_SECONDS_MIN", 0.0)
        async with (
            spare_tables(endpoint) as prefix,
            open_tables(endpoint, prefix, writes_heads=False) as writer,
        ):
            fleet = Fleet(endpoint, prefix, writer)
            yield fleet
            assert await broken_previews(fleet.dynamo) == []


def shown(row: ChatRow) -> tuple[int, bytes | None]:
    """The last message of a row."""
    assert row.last is not None
    return row.last.sequence, row.last.box


def own(sent: Entry, user: UserKey) -> OwnSends:
    span = OwnSpan(sent.number - 1, sent.number, sent.sequence)
    return OwnSends(user, sent.chat_id, (span,), sent)
