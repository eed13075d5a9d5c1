# SPDX-License-Identifier: Apache-2.0
"""`tidings export` and `tidings import` with real servers: a client hardly notices the move."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.support.command import COMMAND_SECONDS_MAX, tidings
from tests.support.device import Device
from tests.support.dynamo_tables import some_tables
from tests.support.engine import as_environment, on_tables
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.actions.export.exporting import encode
from tidings.actions.export.importing import STEP_FACTS
from tidings.ports.export_facts import TenantKeyFact

KEYS = ("root.key", "master.key")


def with_keys_of(folder: Path, new: Path) -> Path:
    """A folder with the same root and master key, and nothing else."""
    new.mkdir(mode=0o700)
    for name in KEYS:
        shutil.copy(folder / name, new / name)
    return new


# A client and its move.


@dataclass
class Talk:
    """Ann and Bob, on whichever server listens at their address; Bob has a phone."""

    ann: Person
    bob: Person
    chat: str
    phone: Device

    def texts(self) -> list[str]:
        """What the phone holds."""
        entries = self.phone.logs.entries[self.chat]
        return [entry["content"] for entry in entries if entry["kind"] == "message"]


async def begin(town: Town) -> Talk:
    """A conversation that the phone has heard, up to two messages that it has missed."""
    ann, bob = await town.user("ann"), await town.user("bob")
    talk = Talk(ann, bob, await ann.create_direct(bob), bob.device())
    await talk.phone.connect()
    await ann.send(talk.chat, "one", client_message_id="first")
    await talk.phone.send(talk.chat, "two")
    await ann.send(talk.chat, "three", ttl_seconds=3_600)
    await talk.phone.until(lambda: len(talk.texts()) == 3)
    await talk.phone.close()
    await ann.send(talk.chat, "four")
    await ann.send(talk.chat, "five")
    return talk


async def go_on(talk: Talk, missed: int) -> None:
    """The phone comes back with what it has, hears what it missed, and the talk goes on."""
    before = len(talk.texts())
    await talk.phone.connect()
    assert talk.phone.caught_up[-1] == missed
    assert talk.phone.resyncs == []
    assert len(talk.texts()) == before + missed
    sent = await talk.phone.send(talk.chat, "answer")
    assert sent["sequence"] == talk.phone.logs.have[talk.chat]
    await talk.ann.send(talk.chat, "and back")
    await talk.phone.until(lambda: len(talk.texts()) == before + missed + 2)
    again = await talk.ann.send(talk.chat, "one", client_message_id="first")
    assert again["sequence"] == 2, "the key of a send counts on"
    await talk.phone.close()
    await talk.ann.send(talk.chat, "while you were away")


@pytest.mark.slow
async def test_a_client_goes_on_over_a_move_there_and_back(
    tmp_path: Path, dynamodb_endpoint: str
) -> None:
    first, file = tmp_path / "first", tmp_path / "file"
    async with AsyncExitStack() as stack:
        async with ServerProcess(first) as server:
            town = await stack.enter_async_context(Town(server.url, server.root_key))
            talk = await begin(town)
            refused = await tidings("export", file, "--data", first)
            assert (refused.code, "in use" in refused.errors) == (2, True)
        assert (await tidings("export", file, "--data", first)).code == 0
        epoch = talk.phone.epoch

        prefix = await stack.enter_async_context(some_tables(dynamodb_endpoint))
        tables = as_environment(on_tables(dynamodb_endpoint, prefix))
        second = with_keys_of(first, tmp_path / "second")
        done = await tidings("import", file, "--data", second, environment=tables)
        assert (done.code, b"2 users, 1 chats, 6 entries" in done.out) == (0, True), done
        async with ServerProcess(second, environment=tables, port=server.port):
            await go_on(talk, missed=2)
        back = await tidings("export", "-", "--data", second, environment=tables)
        assert back.code == 0, back.errors

        third = with_keys_of(first, tmp_path / "third")
        done = await tidings("import", "-", "--data", third, stdin=back.out)
        assert done.code == 0, done.errors
        async with ServerProcess(third, port=server.port):
            await go_on(talk, missed=1)
        assert talk.texts()[:5] == ["one", "two", "three", "four", "five"]
        assert talk.phone.epoch == epoch


# Killed for real.


@pytest.mark.slow
async def test_an_import_that_is_killed_goes_on(tmp_path: Path) -> None:
    await filled(tmp_path / "first", messages=STEP_FACTS + 200)
    assert (await tidings("export", tmp_path / "a", "--data", tmp_path / "first")).code == 0
    export = (tmp_path / "a").read_bytes()

    new = with_keys_of(tmp_path / "first", tmp_path / "second")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidings", "import", "-", "--data", str(new),
        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(export[:-100])  # the end never comes
    await process.stdin.drain()
    await until(lambda: entries_in(new) >= STEP_FACTS / 2)
    process.kill()
    await process.wait()

    refused = await tidings("serve", "--port", "0", "--data", new)
    assert (refused.code, "not finished" in refused.errors) == (2, True)
    assert (await tidings("import", tmp_path / "a", "--data", new)).code == 0
    assert (await tidings("export", "-", "--data", new)).out == export


def entries_in(folder: Path) -> int:
    """How many entries another process has durably written there."""
    try:
        db = apsw.Connection(str(folder / "tidings.db"), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.CantOpenError:
        return 0
    try:
        count: int = db.execute("SELECT count(*) FROM messages").get
    except (apsw.SQLError, apsw.BusyError):
        return 0
    finally:
        db.close()
    return count


# Many messages.


async def filled(folder: Path, *, messages: int) -> None:
    """A deployment with so many messages in a few chats, and some reactions."""
    async with (
        ServerProcess(folder, environment=NO_LIMITS) as server,
        Town(server.url, server.root_key) as town,
    ):
        people = [await town.user(f"u{number}") for number in range(5)]
        chats = [await people[0].create_group(f"g{n}", people[1:]) for n in range(4)]
        device = await people[0].device().connect()
        for start in range(0, messages, 100):
            texts = [f"message {number}" for number in range(start, min(start + 100, messages))]
            chat = chats[start // 100 % len(chats)]
            await asyncio.gather(*(device.send(chat, text) for text in texts))
        newest = (await people[1].history(chats[0], limit=1))[0]
        place = f"/v1/chats/{chats[0]}/messages/{newest['sequence']}"
        await people[1].call("PUT", f"{place}/reactions/%F0%9F%91%8D")
        await device.close()


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(500, marks=pytest.mark.slow),
        pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
)
async def test_there_and_back_again_is_the_same_file(
    tmp_path: Path, dynamodb_endpoint: str, messages: int
) -> None:
    await filled(tmp_path / "first", messages=messages)
    command = partial(tidings, seconds=max(COMMAND_SECONDS_MAX, messages / 50))
    first = await command("export", "-", "--data", tmp_path / "first")
    async with some_tables(dynamodb_endpoint) as prefix:
        tables = as_environment(on_tables(dynamodb_endpoint, prefix))
        away = with_keys_of(tmp_path / "first", tmp_path / "away")
        done = await command("import", "-", "--data", away, environment=tables, stdin=first.out)
        assert done.code == 0, done.errors
        second = await command("export", "-", "--data", away, environment=tables)
    assert second.out == first.out
    home = with_keys_of(tmp_path / "first", tmp_path / "home")
    done = await command("import", "-", "--data", home, stdin=second.out)
    assert done.code == 0, done.errors
    third = await command("export", "-", "--data", tmp_path / "home")
    assert third.out == first.out


# What is refused.


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small export, in a folder with the store it is of."""
    folder = tmp_path_factory.mktemp("export")
    asyncio.run(filled(folder / "data", messages=100))
    done = asyncio.run(tidings("export", folder / "all", "--data", folder / "data"))
    assert done.code == 0, done.errors
    assert "100" not in done.out.decode(), "nothing but lines of an export on standard output"
    yield folder / "all"


async def test_an_export_is_for_its_owner_and_replaces_nothing(export: Path) -> None:
    assert export.stat().st_mode & 0o777 == 0o600
    again = await tidings("export", export, "--data", export.parent / "data")
    assert (again.code, "already exists" in again.errors) == (2, True)
    assert sorted(path.name for path in export.parent.iterdir()) == ["all", "data"]


async def test_a_damaged_file_is_refused_before_anything_is_written(
    export: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(export.read_bytes().replace(b":u3", b":u8", 1))
    refused = await tidings("import", damaged, "--data", tmp_path / "new")
    assert (refused.code, "not a complete export" in refused.errors) == (2, True)
    assert not (tmp_path / "new").exists()


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = await tidings("import", tmp_path / "no", "--data", tmp_path / "new")
    assert (refused.code, "cannot be read" in refused.errors) == (2, True)
    refused = await tidings("export", tmp_path / "no" / "no", "--data", tmp_path / "new")
    assert refused.code == 2
    refused = await tidings("export", tmp_path / "all", "--data", tmp_path / "new")
    assert (refused.code, "no store" in refused.errors) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.attack("S17", "H13")
async def test_a_half_written_export_is_never_somebody_elses_file(
    export: Path, tmp_path: Path
) -> None:
    part, victim = tmp_path / "all.part", tmp_path / "victim"
    victim.write_text("mine")
    for is_link in (True, False):
        if is_link:
            part.symlink_to(victim)
        else:
            part.touch(0o666)
        refused = await tidings("export", tmp_path / "all", "--data", export.parent / "data")
        assert (refused.code, "all.part cannot be created" in refused.errors) == (2, True)
        assert not (tmp_path / "all").exists()
        assert victim.read_text() == "mine"
        part.unlink()


def forged(export: Path, *, version: int) -> bytes:
    """An export with a tenant key that somebody put in, and an end that is right without a key."""
    lines = export.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b'"version":5', b'"version":%d' % version)
    key = TenantKeyFact(key_id="mine", tenant="acme", digest=b"d" * 32, created_at=1)
    at = next(index for index, line in enumerate(lines) if b'"fact":"tenant_key"' in line)
    lines.insert(at, encode(key) + b"\n")
    end = json.loads(lines[-1])
    end["counts"]["tenant_key"] += 1
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    if version < 4:
        del end["mac"], end["master_key_id"]
    lines[-1] = json.dumps(end).encode() + b"\n"
    return b"".join(lines)


@pytest.mark.attack("S29", "H08")
@pytest.mark.parametrize(("version", "reason"), [(5, "was changed"), (3, "no signature")])
async def test_an_export_that_somebody_changed_is_refused(
    export: Path, tmp_path: Path, version: int, reason: str
) -> None:
    new = with_keys_of(export.parent / "data", tmp_path / "new")
    file = tmp_path / "forged"
    file.write_bytes(forged(export, version=version))

    refused = await tidings("import", file, "--data", new)
    assert (refused.code, reason in refused.errors) == (2, True), refused.errors
    assert sorted(path.name for path in new.iterdir()) == sorted(KEYS), "nothing was kept"

    refused = await tidings("import", "-", "--data", new, stdin=file.read_bytes())
    assert (refused.code, reason in refused.errors) == (2, True)
    refused = await tidings("serve", "--port", "0", "--data", new)
    assert (refused.code, "not finished" in refused.errors) == (2, True)


async def test_without_its_master_key_what_was_imported_is_not_served(
    export: Path, tmp_path: Path
) -> None:
    refused = await tidings("import", export, "--data", tmp_path / "new")
    assert (refused.code, "master key of the old deployment" in refused.errors) == (2, True)
    done = await tidings("import", export, "--data", tmp_path / "new", "--unsigned")
    assert (done.code, b"Master key" in done.out) == (0, True)
    refused = await tidings("serve", "--port", "0", "--data", tmp_path / "new")
    assert (refused.code, "master key" in refused.errors) == (2, True)
