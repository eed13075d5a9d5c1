# SPDX-License-Identifier: Apache-2.0
"""The embedded store's folder: one process, one schema, nothing left of what was destroyed."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.contract.builders import a_chat, append, entry_at, message, redacted
from tests.contract.engines import SqliteEngine
from tests.support.clock import NOW
from tests.support.users import ANN, BOB, some_users
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import WrappedKey
from tidings.stores.sqlite.engine.connections import DATABASE, connect
from tidings.stores.sqlite.engine.schema import VERSION

OPEN_IN_A_PROCESS = """
import asyncio, sys
from pathlib import Path
from tidings.ports.world import NoFailpoints
from tidings.stores.sqlite.store import open_store

async def main():
    async with open_store(Path(sys.argv[1]), failpoints=NoFailpoints(), broken=print):
        print("open", flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine(tmp_path / "data")


def open_in_a_process(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", OPEN_IN_A_PROCESS, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_a_second_process_is_refused_by_name(engine: SqliteEngine) -> None:
    async with engine.open():
        _, errors = open_in_a_process(engine.folder).communicate(timeout=60)

    last = errors.strip().splitlines()[-1]
    assert "SetupError" in last
    assert str(engine.folder) in last
    assert f"pid {os.getpid()}" in last


async def test_a_killed_process_leaves_no_lock_behind(engine: SqliteEngine) -> None:
    async with engine.open():
        pass
    with open_in_a_process(engine.folder) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(SetupError, match=rf"\(pid {other.pid}\)"):
            async with engine.open():
                pass
        other.kill()
        other.wait()

    async with engine.open() as store:
        assert await store.chats.list_heads(ANN) == []


async def test_a_refused_folder_can_be_opened_once_it_is_free(engine: SqliteEngine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
        with pytest.raises(SetupError):
            async with engine.open():
                pass
        await append(store, state, message(ANN))

    async with engine.open() as store:
        assert (await entry_at(store, state, 2)).box == b"hi"


async def test_a_newer_schema_is_refused_and_left_alone(engine: SqliteEngine) -> None:
    async with engine.open():
        pass
    db = apsw.Connection(str(engine.folder / DATABASE))
    db.pragma("user_version", VERSION + 1)
    db.close()

    for _ in range(2):  # the first refusal lets go of the folder
        with pytest.raises(SetupError, match=f"schema {VERSION + 1}.*supports up to {VERSION}"):
            async with engine.open():
                pass
    db = apsw.Connection(str(engine.folder / DATABASE))
    assert db.pragma("user_version") == VERSION + 1
    db.close()


async def test_a_file_that_is_no_store_is_refused(engine: SqliteEngine) -> None:
    engine.folder.mkdir()
    (engine.folder / DATABASE).write_bytes(b"something else altogether" * 100)

    with pytest.raises(SetupError, match="cannot be opened"):
        async with engine.open():
            pass


async def test_two_stores_have_two_epochs(tmp_path: Path) -> None:
    async with SqliteEngine(tmp_path / "a").open() as a, SqliteEngine(tmp_path / "b").open() as b:
        assert a.deployment.epoch != b.deployment.epoch


async def test_nobody_else_reads_the_files(engine: SqliteEngine) -> None:
    async with engine.open() as store:
        await a_chat(store)
        files = [path for path in engine.folder.iterdir() if path.name.startswith(DATABASE)]
        assert {path.name for path in files} >= {DATABASE, f"{DATABASE}-wal"}
        for path in files:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(engine.folder.stat().st_mode) == 0o700


def test_a_connection_has_its_settings(tmp_path: Path) -> None:
    db = connect(tmp_path / DATABASE)
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "wal_autocheckpoint": 0,
        "secure_delete": 1,
        "temp_store": 2,
    }
    assert {name: db.pragma(name) for name in wanted} == wanted
    db.close()


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def test_a_destroyed_key_is_nowhere_on_the_disk(engine: SqliteEngine) -> None:
    async with engine.open() as store:
        for author in (ANN, BOB, *some_users(200)):
            wrapped = f"<the key of {author}>".encode() * 3
            await store.data_keys.add(
                WrappedKey(author=author, generation=0, wrapped=wrapped, master_key_id="m1")
            )
        assert f"<the key of {ANN}>".encode() in bytes_on_disk(engine.folder)

        assert await store.data_keys.end(ANN, NOW) == 1

        left = bytes_on_disk(engine.folder)
        assert f"<the key of {ANN}>".encode() not in left
        assert f"<the key of {BOB}>".encode() in left


async def test_redacted_content_does_not_outlive_a_restart(engine: SqliteEngine) -> None:
    async with engine.open() as store:
        state = await a_chat(store)
        await append(store, state, message(ANN, "<a secret>" * 300), message(ANN, "<the rest>"))
        await append(store, state, redacted(2))

    left = bytes_on_disk(engine.folder)
    assert b"<a secret>" not in left
    assert b"<the rest>" in left
