# SPDX-License-Identifier: Apache-2.0
"""Planning: units, other designs, tables, processes and prices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.cost_page import (
    IdentityCase,
    InboxCase,
    UseCase,
    identity_cases,
    inbox_cases,
    units_in_words,
    use_cases,
)
from scripts.write_cost import PAGE
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, user_key
from tidings.model.notifications import Copy
from tidings.model.setup_error import SetupError
from tidings.ports.sessions import Session
from tidings.stores.dynamodb.chat.items import entry_item
from tidings.stores.dynamodb.identity.sessions import session_item
from tidings.stores.dynamodb.inbox.items import copy_item
from tidings.stores.dynamodb.patterns import declared
from tidings.stores.dynamodb.tables import TABLES
from tidings.tools import chat_costs, identity_costs, inbox_costs
from tidings.tools.capacity_plan import (
    BUSY_MAX,
    CONNECTION_BYTES,
    MEMORY_SHARE,
    MONTH_HOURS,
    Machine,
    fleet,
    plan,
)
from tidings.tools.charges import (
    Prices,
    Units,
    read_prices,
    relaxed_units,
    strong_units,
    total,
    write_units,
)
from tidings.tools.other_designs import (
    COUNTER_AND_ROWS,
    ROW_PER_MEMBER,
    ROW_PER_NOTIFICATION,
    SINGLE_TABLE,
    Estimate,
    estimate,
)
from tidings.tools.traffic import Traffic, flows

ROOT = PAGE.parents[2]
PATTERNS = {pattern.name: pattern for pattern in declared()}
CASES: list[UseCase | InboxCase | IdentityCase] = [
    *use_cases(),
    *inbox_cases(),
    *identity_cases(),
]


# Units.


def test_units_are_rounded_as_they_are_billed() -> None:
    assert [write_units(size) for size in (0, 1, 1_024, 1_025)] == [1, 1, 1, 2]
    assert [strong_units(size) for size in (0, 4_096, 4_097)] == [1, 1, 2]
    assert relaxed_units(4_097) == 1
    assert (Units(1, 2) + Units(3, 4)).times(2) == Units(8, 12)
    assert units_in_words(Units(1_003, 0.5)) == "1,003 w, 0.5 r"
    assert units_in_words(Units()) == "0"


def test_a_message_is_as_large_as_we_say() -> None:
    sent = Entry(
        chat_id=ChatId("01HZZZZZZZZZZZZZZZZZZZZZZZ"),
        kind="message",
        sender=user_key("acme", "0" * 25),
        sequence=123,
        created_at=1_800_000_123_457,
        number=120,
        mark="0123456789abcdef1234",
        client_message_id="123e4567-e89b-12d3-a456-426614174000",
        content_type="text/plain",
        box=bytes(28),
        box_key=1,
    )
    assert abs(size_of(entry_item(sent)) - chat_costs.MESSAGE_BYTES) <= 10


def test_a_copy_is_as_large_as_we_say() -> None:
    copy = Copy(
        notification_id="01HZZZZZZZZZZZZZZZZZZZZZZZ",
        category="offers",
        received_at=1_800_000_123_457,
        expires_at=1_807_776_123_457,
    )
    item = copy_item(user_key("acme", "0" * 25), "default", copy)
    assert abs(size_of(item) - inbox_costs.COPY_BYTES) <= 2


def test_a_session_is_as_large_as_we_say() -> None:
    session = Session(
        session_id="01HZZZZZZZZZZZZZZZZZZZZZZZ",
        user=user_key("acme", "0" * 26),
        device="phone",
        refresh_digest=bytes(32),
        previous_digest=bytes(32),
        sealed_refresh=bytes(101),
        created_at=1_800_000_123_457,
        rotated_at=1_800_000_123_457,
        expires_at=1_805_184_123_457,
    )
    assert abs(size_of(session_item(session)) - identity_costs.SESSION_BYTES) <= 10


def size_of(item: dict[str, Any]) -> int:
    """As DynamoDB counts: names and values, a number two digits a byte."""
    return sum(
        len(name) + (1 + (len(str(value)) + 1) // 2 if isinstance(value, int) else len(value))
        for name, value in item.items()
    )


def test_charges_name_patterns_of_their_tables() -> None:
    for case in CASES:
        for charge in case.ours.in_all:
            pattern = PATTERNS[charge.pattern]
            assert charge.table in pattern.tables
            is_read = pattern.operation in ("GetItem", "Query", "BatchGetItem")
            assert bool(charge.units.read) == is_read
            assert bool(charge.units.write) != is_read


def test_use_cases_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 36


# Other designs, by the counts that their descriptions lead to.


def test_other_designs_send_for_what_they_say() -> None:
    assert ROW_PER_MEMBER.send(2, 100) + ROW_PER_MEMBER.deliver(2, 100, 1) == Units(14, 0.5)
    assert SINGLE_TABLE.send(2, 100) == Units(7, 0)
    assert COUNTER_AND_ROWS.send(2, 100) == Units(5, 1.5)
    assert ROW_PER_MEMBER.send(1_000, 100).write > 2_000
    assert COUNTER_AND_ROWS.reconnect(50, 100, 100) == COUNTER_AND_ROWS.hello(50) + Units(read=8)


def test_a_row_per_notification_pays_for_every_user() -> None:
    theirs = ROW_PER_NOTIFICATION
    assert theirs.post(1_000, 300) == Units(3_000)
    assert theirs.post(1, 4_096) == Units(7)
    assert theirs.redact(1_000, 300) == Units(1_000)
    assert theirs.list(50, 300) == Units(read=4)
    assert theirs.unread() == Units(read=0.5)
    assert theirs.read_one(300) == Units(3)
    assert theirs.read_before(50, 300) == Units(52, 4)


# The plan.


def test_the_estimate_of_s2_is_as_printed() -> None:
    assert estimate(Traffic(dau=10_000, messages_per_day=100)) == {
        "messages": (100, 12, 5),
        "chat_counters": (0, 12, 0.01),
        "idempotency_keys": (12, 12, 0.5),
        "delivery_state": (50, 20, 0.1),
        "users": (20, 0.1, 0.05),
        "chats": (30, 0.5, 0.01),
        "chat_memberships": (50, 1, 0.1),
        "sessions": (10, 1, 0.01),
    }
    assert Traffic(dau=10_000, messages_per_day=100).messages_per_second == pytest.approx(
        12, abs=0.5
    )


def test_the_estimate_of_s2_goes_with_users_and_messages() -> None:
    found = estimate(Traffic(dau=20_000, messages_per_day=25))
    assert found["messages"] == Estimate(200, 6, 2.5)
    assert found["users"] == Estimate(40, 0.2, 0.1)


def test_writes_of_a_plan_add_up() -> None:
    load = Traffic(
        dau=86_400,
        messages_per_day=1,
        group_share=0,
        online_share=1,
        reactions_share=0,
        edits_share=0,
        joins_per_day=0,
        opens_per_day=0,
        reads_per_day=0,
    )
    planned = plan(load, Prices())
    assert planned.average == total(chat_costs.send(2, load.message_bytes, 1).in_all) == Units(6, 2)
    by_table = {one.table: one for one in planned.tables}
    assert by_table["messages"].average == Units(1, 1)
    assert by_table["delivery_state"].average == Units(4, 1)
    assert by_table["messages"].peak == Units(10, 10)
    month = MONTH_HOURS * 3_600 / 1e6
    assert by_table["idempotency_keys"].on_demand == pytest.approx(month * 0.625)
    assert set(by_table) == {table.name for table in TABLES}


def test_the_cheaper_mode_is_suggested() -> None:
    steady, bursty = (plan(Traffic(peak=peak), Prices()) for peak in (1.5, 20))
    assert {one.mode for one in steady.tables if one.average.write} == {"provisioned"}
    assert {one.mode for one in bursty.tables} == {"on demand"}
    for one in steady.tables:
        assert one.dollars == pytest.approx(min(one.provisioned, one.on_demand) + one.storage)
    (messages,) = (one for one in steady.tables if one.table == "messages")
    held = (messages.peak.write * 0.00065 + messages.peak.read * 0.00013) * MONTH_HOURS
    assert messages.provisioned == pytest.approx(held / BUSY_MAX)


def test_the_tables_are_declared_in_the_mode_that_is_cheaper() -> None:
    assert {one.mode for one in plan(Traffic(), Prices()).tables} == {"on demand"}
    assert all(table.capacity is None for table in TABLES)


def test_storage_grows_with_what_is_kept() -> None:
    year, two = (plan(Traffic(plan_days=days), Prices()) for days in (365, 730))
    held = {one.table: one.gigabytes for one in year.tables}
    later = {one.table: one.gigabytes for one in two.tables}
    assert later["messages"] == pytest.approx(2 * held["messages"])
    assert later["idempotency_keys"] == held["idempotency_keys"]
    assert held["messages"] == pytest.approx(195, rel=0.02)


def test_content_that_is_not_retained_leaves_entries_and_costs_a_write() -> None:
    kept, removed = (plan(Traffic(retention_days=days), Prices()) for days in (0, 30))
    size = {one.table: one.gigabytes for one in removed.tables}
    before = {one.table: one.gigabytes for one in kept.tables}
    assert 0 < size["messages"] < before["messages"], "entries stay without their content"
    assert size["bodies"] > before["bodies"] == 0
    longer = plan(Traffic(retention_days=30, plan_days=730), Prices())
    assert next(one for one in longer.tables if one.table == "bodies").gigabytes == size["bodies"]
    written = removed.average.write - kept.average.write
    assert written == pytest.approx(Traffic().messages_per_second), "the content apart"


def test_what_expires_sooner_than_it_is_retained_goes_sooner() -> None:
    load = Traffic(expiring_share=0.5, expiring_days=2, retention_days=30)
    assert (load.fleeting_share, load.fleeting_days) == (1.0, 16.0)


def test_expiring_messages_leave_only_tombstones() -> None:
    lasting, fleeting = (plan(Traffic(expiring_share=share), Prices()) for share in (0, 1))
    kept = [one.gigabytes for one in lasting.tables if one.table == "messages"]
    left = [one.gigabytes for one in fleeting.tables if one.table == "messages"]
    assert left < kept
    assert sum(one.average.write for one in fleeting.tables if one.table == "bodies") > 11


def test_flows_cover_all_that_is_sent() -> None:
    load = Traffic(expiring_share=0.25)
    sent = sum(flow.per_second for flow in flows(load) if flow.name.startswith("send"))
    assert sent == pytest.approx(load.messages_per_second)


# Processes.


def test_a_fleet_has_memory_and_time_enough() -> None:
    load = Traffic(dau=100_000_000, messages_per_day=40, peak=3)
    planned = plan(load, Prices())
    machine = Machine()
    found = fleet(planned, machine)
    held = found.gateways_by_memory * machine.gateway_gb * 2**30 * MEMORY_SHARE
    assert held >= found.connections * CONNECTION_BYTES
    assert found.connections == 20_000_000
    assert found.gateways == max(found.gateways_by_memory, found.gateways_by_processor)
    assert found.partitions >= 2 * found.workers
    faster = fleet(planned, replace(machine, request_us=65))
    assert faster.gateways_by_processor < found.gateways_by_processor / 5


def test_a_small_fleet_is_one_of_each() -> None:
    found = fleet(plan(Traffic(dau=10, peak=1), Prices()), Machine())
    assert (found.gateways, found.workers, found.partitions) == (1, 1, 8)


# Prices.


def test_the_file_in_the_repository_says_what_is_built_in() -> None:
    assert read_prices(ROOT / "deploy/prices.toml") == Prices()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("million_write_units = -1", "-1"),
        ("gigabyte_month = true", "True"),
        ("region = 5", "5"),
        ("write_units = 1", "write_units is unknown"),
        ("= 1", "prices.toml"),
    ],
)
def test_prices_that_cannot_be_right_are_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(SetupError, match=says):
        read_prices(tmp_path / "prices.toml")
