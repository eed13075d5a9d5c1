# SPDX-License-Identifier: Apache-2.0
"""The stores of the version before are upgraded without loss, and an upgrade can be undone."""

import re
from pathlib import Path

import apsw
import pytest

from tests.integration.inbox_world import Reader
from tests.integration.previous_store import (
    FILE,
    ITEMS,
    MASTER_KEY,
    TEXTS,
    dump,
    load,
    load_tables,
)
from tests.integration.rest_world import Actor, open_rest
from tests.support.clock import NOW
from tests.support.dynamo_tables import some_tables
from tests.support.engine import Settings, on_tables
from tidings.actions.content.wrapping import Wrapping
from tidings.actions.export.verifying import Verified, verify_all
from tidings.assembly.system import SystemChance
from tidings.keyrings import EnvironmentKeyring
from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.engine import schema
from tidings.stores.sqlite.engine.connections import DATABASE
from tidings.stores.sqlite.export.inspecting import open_inspection

LATER = NOW + 60_000
ADDED = "CREATE TABLE later (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID"
CHANGED = "ALTER TABLE chats ADD COLUMN later TEXT"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder as the version before left it."""
    load(tmp_path / "data")
    return tmp_path / "data"


async def messages(actor: Actor) -> list[str | None]:
    """The texts of the direct chat, oldest first."""
    chats = (await actor.ok("GET", "/v1/chats"))["data"]
    (chat,) = [one["chat_id"] for one in chats if one["type"] == "direct"]
    page = await actor.ok("GET", f"/v1/chats/{chat}/messages")
    found = [one.get("content") for one in page["data"] if one.get("client_message_id")]
    return found[::-1]


async def violations(folder: Path) -> int:
    """How many rules the stored data breaks."""
    wrapping = Wrapping(EnvironmentKeyring(MASTER_KEY, None), SystemChance())
    verified = Verified()
    async with open_inspection(folder) as store:
        async for _ in verify_all(store, LATER, wrapping, lambda _: None, verified):
            pass
    return verified.violations


async def test_nothing_is_lost_by_an_upgrade(folder: Path) -> None:
    await check_everything(folder, {})
    assert await violations(folder) == 0


async def test_nothing_is_lost_by_an_upgrade_on_tables(
    dynamodb_endpoint: str, tmp_path: Path
) -> None:
    async with some_tables(dynamodb_endpoint, streams=False) as prefix:
        await load_tables(dynamodb_endpoint, prefix)
        await check_everything(tmp_path / "keys", on_tables(dynamodb_endpoint, prefix))


async def check_everything(folder: Path, settings: Settings) -> None:
    """Look for what the version before has stored, and write more."""
    async with open_rest(folder, master_key=MASTER_KEY, time=LATER, settings=settings) as rest:
        ann, bob = await rest.users("ann", "bob")
        assert [text for text in await messages(bob) if text] == list(TEXTS)
        chats = (await bob.ok("GET", "/v1/chats"))["data"]
        assert {one["name"] for one in chats if one["type"] == "group"} == {"Team"}
        assert await Reader(bob, "news").titles() == ["Hello all"]
        chat = await ann.direct("bob")
        again = await ann.call(
            "POST", f"/v1/chats/{chat}/messages", {"client_message_id": "m1", "content": TEXTS[0]}
        )
        assert again.headers["idempotent-replay"] == "true"
        await ann.send(chat, "m9", "after the upgrade")
        assert (await messages(bob))[-1] == "after the upgrade"


def test_the_steps_of_a_released_schema_never_change(folder: Path) -> None:
    db = apsw.Connection(str(folder / DATABASE))
    kept = db.pragma("user_version")
    fresh = apsw.Connection(":memory:")
    for step in schema.MIGRATIONS[:kept]:
        fresh.execute(step).fetchall()
    names = "SELECT type, name FROM sqlite_master ORDER BY 1, 2"
    assert db.execute(names).fetchall() == fresh.execute(names).fetchall()
    for kind, name in fresh.execute(names).fetchall():
        if kind == "table":
            columns = f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{name}')"
            assert db.execute(columns).fetchall() == fresh.execute(columns).fetchall()
    db.close()


def test_the_kept_store_contains_no_text() -> None:
    kept = FILE.read_text() + ITEMS.read_text()
    assert not [text for text in TEXTS if text in kept]


def upgrade(monkeypatch: pytest.MonkeyPatch, step: str, *, is_additive: bool) -> None:
    """Become a version that has one step more."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    if is_additive:
        monkeypatch.setattr(schema, "ADDITIVE", (*schema.ADDITIVE, step))


async def write(folder: Path, name: str) -> list[str | None]:
    """Send a message as the version that this is now; return all texts."""
    async with open_rest(folder, master_key=MASTER_KEY, time=LATER) as rest:
        (ann,) = await rest.users("ann")
        await ann.send(await ann.direct("bob"), name, name)
        return await messages(ann)


async def test_an_upgrade_that_only_adds_can_be_undone_without_loss(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(folder, "before")
    with monkeypatch.context() as newer:
        upgrade(newer, ADDED, is_additive=True)
        await write(folder, "during")
    assert (await write(folder, "after"))[-3:] == ["before", "during", "after"]
    assert await violations(folder) == 0
    upgrade(monkeypatch, ADDED, is_additive=True)
    assert (await write(folder, "again"))[-1] == "again"


async def test_an_upgrade_that_changes_something_is_not_undone_by_mistake(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(folder, "before")
    with monkeypatch.context() as newer:
        upgrade(newer, ADDED, is_additive=True)
        upgrade(newer, CHANGED, is_additive=False)
        await write(folder, "during")
    kept = dump(folder)
    with pytest.raises(SetupError, match="run the newer version, or restore a backup"):
        await write(folder, "after")
    assert dump(folder) == kept


@pytest.mark.parametrize("step", (*schema.ADDITIVE, ADDED))
def test_additive_steps_only_create_tables_and_indexes(step: str) -> None:
    statements = [text.strip() for text in re.sub(r"--.*", "", step).split(";") if text.strip()]
    assert [text for text in statements if not re.match(r"CREATE (TABLE|INDEX) ", text)] == []
