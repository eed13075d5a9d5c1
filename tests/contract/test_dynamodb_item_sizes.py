# SPDX-License-Identifier: Apache-2.0
"""No item comes near DynamoDB's limit: the largest of everything is stored, then measured."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.contract.builders import (
    added,
    append,
    blank,
    draft,
    edited,
    key,
    message,
    reacted,
    request,
)
from tests.contract.engines import DynamoEngine, Store
from tests.contract.identity_builders import a_code, a_session, an_allowance, an_issuer
from tests.contract.inbox_builders import a_broadcast, a_notification, some_jobs
from tests.contract.test_people import a_signing_key, a_tenant, an_api_key
from tests.contract.test_secrets import a_key
from tests.support.clock import NOW
from tests.support.dynamo_tables import REGION
from tests.support.spare_tables import spare_tables
from tidings.assembly.system import SystemChance, SystemClock
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.ids import UserKey, user_key
from tidings.model.notifications import InboxConfig
from tidings.ports.audit import Act, AuditEntry
from tidings.ports.log import Kept
from tidings.stores.dynamodb.client.dynamo import open_client
from tidings.stores.dynamodb.patterns import Pattern
from tidings.stores.dynamodb.tables import TABLES

ITEM_BYTES_MAX = 200 * limits.KIB
"""Half of what DynamoDB takes."""
EXPECTED_BYTES_MAX = 10 * limits.KIB
"""What we mean to stay under, so that growth is noticed long before it hurts."""
INBOX_BYTES_MAX = 40 * limits.KIB
"""Likewise of the inbox: what a tenant says of itself is longer than any message."""
TENANT_BYTES_MAX = 20 * limits.KIB
"""Likewise of tenants: the keys with which one signs itself."""
WIDE = "\N{GRINNING FACE}"


@pytest.fixture
async def prefix(dynamodb_endpoint: str) -> AsyncIterator[str]:
    async with spare_tables(dynamodb_endpoint) as prefix:
        yield prefix


def somebody(number: int) -> UserKey:
    """A user with the longest name there is."""
    return user_key("t" * 40, f"{number:064}")


def size(value: Any) -> int:
    """How many bytes DynamoDB counts for a value."""
    match value:
        case bool() | None:
            return 1
        case int():
            return 21
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case frozenset():
            return 3 + sum(1 + size(one) for one in value)
        case list():
            return 3 + sum(1 + size(one) for one in value)
        case dict():
            return 3 + sum(1 + size(name) + size(one) for name, one in value.items())
        case _:
            raise AssertionError(f"{type(value)} is no plain value")


async def a_full_chat(store: Store) -> ChatState:
    crowd = [somebody(number) for number in range(limits.MEMBERS_PER_ENTRY_MAX)]
    chat, entries = draft(*crowd, name=WIDE * limits.NAME_CHARS_MAX)
    asked = request("k" * limits.REQUEST_KEY_CHARS_MAX, user=crowd[0], digest=b"d" * 32)
    await store.chats.create(chat, entries, asked, NOW)
    state = blank(chat)
    for entry in entries:
        state.fold(entry)
    others = [somebody(number + len(crowd)) for number in range(limits.MEMBERS_PER_ENTRY_MAX)]
    assert await append(store, state, added(*others, by=crowd[0])) == Kept()
    return state


async def send_the_largest(store: Store, state: ChatState) -> None:
    text = "x" * (limits.CONTENT_BYTES_MAX + 64)  # sealing adds a little
    for expires_at in (None, NOW + limits.DAY_MS):
        sent = message(somebody(0), text, cmid=f"{expires_at}".zfill(64), expires_at=expires_at)
        sent.content_type = "c" * limits.CONTENT_TYPE_CHARS_MAX
        claim = key(sent, digest=b"d" * 32)
        assert await append(store, state, sent, keys=[claim]) == Kept()
    target = state.head - 1
    change = edited(target, text, by=somebody(0))
    assert await append(store, state, change) == Kept()
    for number in range(limits.REACTION_EMOJI_MAX):
        emoji = chr(0x1F600 + number) * (limits.EMOJI_BYTES_MAX // 4)
        assert await append(store, state, reacted(target, emoji, by=somebody(1))) == Kept()


async def keep_the_largest_people(store: Store) -> None:
    name = WIDE * limits.NAME_CHARS_MAX
    await store.tenants.put(a_tenant(name), a_signing_key("k" * 64))
    await store.tenants.add_key(an_api_key("k" * 64))
    await store.users.put(somebody(0), display_name=name, phone_number="+" + "4" * 15, now=NOW)
    await store.data_keys.add(a_key(somebody(0), b"w" * 128))
    await store.deployment.keep_first_sealed("n" * 64, "m" * 16, b"s" * 256)


async def keep_the_largest_of_identity(store: Store) -> None:
    issuer = msgspec.structs.replace(
        an_issuer("t" * 40, "i" * 255), document=b"d" * limits.ISSUER_BYTES_MAX
    )
    await store.tenants.put_issuer(issuer, None, ["k" * 128])
    session = msgspec.structs.replace(
        a_session(somebody(0), device="d" * 64),
        previous_digest=b"p" * 32,
        sealed_refresh=b"s" * 128,
    )
    await store.sessions.open(session)
    await store.sessions.revoke(somebody(0), session.session_id, NOW)
    await store.login_codes.put(a_code("+" + "4" * 15, tenant="t" * 40, digest=b"d" * 32))
    await store.budgets.spend([an_allowance("n" * 200)])


async def keep_the_largest_of_the_inbox(store: Store) -> None:
    tenant, inbox, user = "t" * 40, "i" * 64, somebody(0)
    settings: dict[str, object] = {"s": "x" * limits.TENANT_SETTINGS_BYTES_MAX}
    config = InboxConfig(
        title=WIDE * limits.TITLE_BYTES_MAX,
        description=WIDE * limits.DESCRIPTION_CHARS_MAX,
        categories=tuple("c" * 64 for _ in range(limits.CATEGORIES_MAX)),
        message_schema={"s": "x" * limits.MESSAGE_SCHEMA_BYTES_MAX},
    )
    await store.inbox_settings.put_settings(tenant, settings)
    await store.inbox_settings.put_config(tenant, inbox, config)
    text = limits.TITLE_BYTES_MAX + limits.BODY_BYTES_MAX + limits.LINK_BYTES_MAX
    box = b"x" * (text + limits.EXTRAS_BYTES_MAX + 4 * limits.SENDER_CHARS_MAX + limits.KIB)
    await store.notifications.put(a_notification(tenant=tenant, inbox=inbox, box=box))
    await store.notifications.append_broadcast(
        a_broadcast(10**12 - 1, tenant=tenant, inbox=inbox, box=box)
    )
    users = tuple(f"{number:064}" for number in range(limits.JOB_USERS_MAX))
    await store.jobs.put(some_jobs(1, tenant=tenant, users=users))
    for start in range(10**12 - 1_300, 10**12 - 100, 100):
        await store.copies.read_broadcasts(user, inbox, range(start, start + 100), NOW + 1)


@pytest.mark.attack("E16")
async def keep_the_largest_of_the_audit_trail(store: Store) -> None:
    act = Act(NOW, "t" * 64 + "/" + "t" * 64, "r" * 64)
    entry = AuditEntry(
        at=NOW, entry_id="0" * 20, tenant="t" * 40, actor="tenant_key", actor_id="0" * 16,
        action="a" * 40, fields=("f" * 40,) * 10, acts=(act,) * limits.AUDIT_ACTS_MAX,
    )  # fmt: skip
    await store.audit.append(entry)


async def test_no_item_is_large(dynamodb_endpoint: str, prefix: str) -> None:
    async with DynamoEngine(dynamodb_endpoint, prefix).open() as store:
        await send_the_largest(store, await a_full_chat(store))
        await keep_the_largest_people(store)
        await keep_the_largest_of_identity(store)
        await keep_the_largest_of_the_inbox(store)
        await keep_the_largest_of_the_audit_trail(store)

    largest = {}
    async with open_client(
        endpoint=dynamodb_endpoint,
        region=REGION,
        prefix=prefix,
        clock=SystemClock(),
        chance=SystemChance(),
    ) as dynamo:
        for table in TABLES:
            look = Pattern("measure", "Scan", (table.name,), "this test")
            items = [item async for page in dynamo.scan(look, 0, 1, 1_000) for item in page]
            assert items, f"nothing was kept in {table.name}"
            largest[table.name] = max(map(size, items))

    assert max(largest.values()) < ITEM_BYTES_MAX
    assert 16 * limits.KIB < largest.pop("inbox") < INBOX_BYTES_MAX
    assert limits.ISSUER_BYTES_MAX < largest.pop("tenants") < TENANT_BYTES_MAX
    assert max(largest.values()) < EXPECTED_BYTES_MAX, largest
    assert largest["sessions"] < limits.KIB, "one unit each"
    assert largest["messages"] > limits.CONTENT_BYTES_MAX, "the largest was among them"
