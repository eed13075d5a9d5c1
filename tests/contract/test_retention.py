# SPDX-License-Identifier: Apache-2.0
"""Retention: content goes after the days that the tenant set, and the log stays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.builders import a_chat, page, row_of
from tests.contract.engines import Store
from tests.support.clock import ManualClock
from tests.support.users import ANN, BOB
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.retention import Retention
from tidings.actions.chat.sending import Post
from tidings.actions.content.vault import Vault
from tidings.assembly.system import SystemChance, back_off
from tidings.buses.in_process import InProcessBus
from tidings.keyrings import FileKeyring
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.ids import tenant_of
from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.refusals import Refusal
from tidings.model.retention import RULE_AGE_MS_MAX

TENANT = tenant_of(ANN)


class Sender:
    """Ann, who writes to Bob."""

    def __init__(self, store: Store, post: Post, state: ChatState, clock: ManualClock) -> None:
        self.store = store
        self.state = state
        self.clock = clock
        self._post = post
        self._sent = 0

    async def keep(self, chats: dict[str, object]) -> None:
        """Change the tenant's rule; after five seconds every process follows it."""
        await self.store.inbox_settings.put_settings(TENANT, {"chats": chats})
        self.clock.time += RULE_AGE_MS_MAX

    async def send(self, ttl_seconds: int | None = None) -> Entry:
        done: asyncio.Future[Entry | Refusal] = asyncio.get_running_loop().create_future()
        self._sent += 1
        name, chat = f"m{self._sent}", self.state.chat_id
        self._post(ANN, chat, name, "hi", None, ttl_seconds, lambda it, _: done.set_result(it))
        answer = await done
        assert isinstance(answer, Entry)
        return answer

    async def kept_ms(self, ttl_seconds: int | None = None) -> int | None:
        """How long a new message lives."""
        sent = await self.send(ttl_seconds)
        return None if sent.expires_at is None else sent.expires_at - sent.created_at


@pytest.fixture
async def sender(store: Store, tmp_path: Path) -> AsyncIterator[Sender]:
    (tmp_path / "keys").mkdir()
    clock, chance = ManualClock(), SystemChance()
    keyring = FileKeyring(tmp_path / "keys", chance)
    vault = Vault(store.data_keys, store.deployment, keyring, chance, clock)
    await vault.start()
    appender = Appender(store.log, InProcessBus(), clock, chance, back_off)
    retention = Retention(store.inbox_settings, clock)
    post = Post(appender, store.log, vault, clock, retention=retention)
    yield Sender(store, post, await a_chat(store), clock)
    for part in (retention, appender, vault):
        await part.close()


async def test_without_a_rule_content_stays(sender: Sender) -> None:
    assert await sender.kept_ms() is None


async def test_the_shorter_of_lifetime_and_retention_counts(sender: Sender) -> None:
    await sender.keep({"keep_days": 2})
    assert await sender.kept_ms() == 2 * DAY_MS
    assert await sender.kept_ms(ttl_seconds=10) == 10 * SECOND_MS
    assert await sender.kept_ms(ttl_seconds=3 * 86_400) == 2 * DAY_MS


async def test_a_chat_may_have_a_rule_of_its_own(sender: Sender) -> None:
    await sender.keep({"keep_days": 2, "keep_days_by_chat": {sender.state.chat_id: 7}})
    assert await sender.kept_ms() == 7 * DAY_MS
    await sender.keep({"keep_days": 2, "keep_days_by_chat": {sender.state.chat_id: None}})
    assert await sender.kept_ms() is None, "this one is kept"


async def test_content_goes_and_the_log_stays(sender: Sender) -> None:
    await sender.send()
    await sender.keep({"keep_days": 1})
    late = await sender.send()
    assert late.expires_at is not None
    store, chat = sender.store, sender.state.chat_id

    for now, count in ((late.expires_at - 1, 2), (late.expires_at, 1)):
        unread = await store.receipts.unread(BOB, chat, now)
        assert unread is not None
        assert unread.unread.count == count
    while await store.sweeping.empty_expired(late.expires_at, 10):
        pass
    first, second = (await page(store, sender.state, after=1)).entries
    assert first.expires_at is None, "what was sent before the rule is kept"
    assert (second.sequence, second.expired(late.expires_at)) == (late.sequence, True)
    row = await row_of(store, BOB, chat)
    assert row.last is not None
    assert row.last.expired(late.expires_at), "so the preview is gone"
