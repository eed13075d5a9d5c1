# SPDX-License-Identifier: Apache-2.0
"""What has to hold of all tables and access patterns, as declared and as the code uses them."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat import deletion_patterns, head_patterns, link_patterns
from tidings.stores.dynamodb.client.access import Pattern
from tidings.stores.dynamodb.export import repair_patterns
from tidings.stores.dynamodb.identity import identity_patterns, push_patterns
from tidings.stores.dynamodb.inbox import (
    due_patterns,
    inbox_patterns,
    webhook_patterns,
)
from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.tables import TABLES, Table, ttl_seconds

STORE = Path(patterns.__file__).parent
BY_NAME = {table.name: table for table in TABLES}
DECLARED = patterns.declared()

OPERATORS_SCANS = {
    "scan_data_keys",
    "scan_signing_keys",
    "scan_tenants",
    "scan_users",
    "scan_authors",
    "scan_requests",
    "scan_chats",
    "scan_inbox",
    "scan_listings",
    "scan_receipts",
    "scan_uploads",
    "scan_sessions",
    "scan_erasures",
}
CRITICAL = {
    "messages",
    "users",
    "chats",
    "chat_memberships",
    "delivery_state",
    "inbox",
    "audit",
}
WIDE = {"TransactWriteItems", "BatchGetItem"}
"""Operations that may touch several tables at once."""
SHORT_LIVED = {"audit", "bodies", "idempotency_keys", "inbox", "sessions"}
DECLARED_IN = {
    "patterns.py": patterns,
    "inbox_patterns.py": inbox_patterns,
    "identity_patterns.py": identity_patterns,
    "push_patterns.py": push_patterns,
    "deletion_patterns.py": deletion_patterns,
    "head_patterns.py": head_patterns,
    "due_patterns.py": due_patterns,
    "webhook_patterns.py": webhook_patterns,
    "link_patterns.py": link_patterns,
    "repair_patterns.py": repair_patterns,
}


def sources() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(STORE.rglob("*.py"))]


def called(tree: ast.Module, method: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
    ]


# Access patterns.


def test_nothing_that_serves_scans() -> None:
    scans = {one.name for one in DECLARED if one.operation == "Scan"}
    assert scans == OPERATORS_SCANS


def test_only_the_walk_of_operators_calls_scan() -> None:
    callers = {path.name for path, tree in sources() if called(tree, "scan")}
    assert callers == {"scanning.py"}


def test_every_pattern_is_used_and_has_a_name_of_its_own() -> None:
    names = Counter(one.name for one in DECLARED)
    assert [name for name, times in names.items() if times > 1] == []
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path, tree in sources()
        if path.name not in DECLARED_IN
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    constants = {
        name
        for module in DECLARED_IN.values()
        for name, one in vars(module).items()
        if isinstance(one, Pattern)
    }
    assert len(constants) == len(DECLARED), "declared() tells of all"
    assert constants - used == set(), "declared, and used by nobody"


def test_patterns_speak_of_what_there_is() -> None:
    for one in DECLARED:
        assert set(one.tables) <= set(BY_NAME), one.name
        assert len(one.tables) == 1 or one.operation in WIDE, one.name
        assert set(one.relaxed) < set(one.tables), one.name
        if one.index is not None:
            assert one.index in {index.name for index in BY_NAME[one.table].indexes}, one.name
            assert not one.strong, f"{one.name}: an index cannot be read strongly"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_is_used(table: Table) -> None:
    assert any(table.name in one.tables for one in DECLARED)


def test_every_index_serves_what_its_table_cannot() -> None:
    for table in TABLES:
        for index in table.indexes:
            assert any(one.index == index.name for one in DECLARED), index.name
            assert index.partition != table.partition, f"{index.name}: ask the table"


# Size.


def test_no_collection_of_items_has_a_limit() -> None:
    for table in TABLES:
        assert "LocalSecondaryIndexes" not in requests.create_table(table, "")


# Lifetime.


def test_what_lives_shortly_is_deleted_by_the_engine_and_nothing_else_is() -> None:
    assert {table.name for table in TABLES if table.ttl} == SHORT_LIVED


@pytest.mark.parametrize(
    ("expires_at", "second"), [(1_000, 1), (1_001, 2), (1_999, 2), (2_000, 2), (0, 0)]
)
def test_nothing_is_deleted_before_it_has_expired(expires_at: int, second: int) -> None:
    assert ttl_seconds(expires_at) == second


def test_what_matters_is_backed_up_and_can_be_recovered() -> None:
    assert set(BY_NAME) >= CRITICAL
    for name in CRITICAL:
        assert BY_NAME[name].pitr, name
        assert (BY_NAME[name].backup_days or 0) >= 90, name


def test_only_the_keys_are_left_out_of_recovery() -> None:
    assert [table.name for table in TABLES if not table.pitr] == ["keys"]
    assert (BY_NAME["keys"].backup_days or 0) <= 7, "erased has to mean erased, soon"
    assert BY_NAME["keys"].stream is None


def test_no_stream_shows_content() -> None:
    assert {table.stream for table in TABLES} == {None, "KEYS_ONLY"}
