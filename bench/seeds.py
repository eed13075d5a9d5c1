# SPDX-License-Identifier: Apache-2.0
"""Creates stores with a long chat. The messages are appended through the store's own code, without
a network."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec

from bench.server import Target, own_folder, own_server
from tidings.assembly import Core, open_core
from tidings.config import Config
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.ports.log import Kept, Outcome, Run
from tidings.stores.sqlite.engine.connections import StoreBroken
from tidings.stores.sqlite.engine.schema import MIGRATIONS
from tidings.tools.load_crowd import People
from tidings.tools.load_talker import CONTENT, Rest

TENANT: Final = "bench"
WRITER: Final = "ann"
READER: Final = "ben"
RUN_ENTRIES: Final = 500
RUNS_UNDER_WAY: Final = 4
MARK: Final = "seed.json"


class Seed(msgspec.Struct, frozen=True):
    """A store with one long chat."""

    data: Path
    chat: str
    messages: int

    async def reader(self, target: Target) -> str:
        """Return a token of a member of the chat."""
        rest = Rest(target.url)
        try:
            return (await People(rest, target.root_key, TENANT).user(READER)).token
        finally:
            rest.close()


async def seeded(messages: int, folder: Path) -> Seed:
    """Return a store with a chat of this many messages. It is kept in the folder for later runs."""
    schema = hashlib.sha256("".join(MIGRATIONS).encode()).hexdigest()[:8]
    data = folder.absolute() / f"{messages}-{schema}"
    if (data / MARK).exists():
        return Seed(data, msgspec.json.decode((data / MARK).read_bytes(), type=str), messages)
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, mode=0o700)
    return await _make(data, messages)


@asynccontextmanager
async def copied(seed: Seed) -> AsyncIterator[Seed]:
    """Yield a copy of the store that may be changed; it is removed afterwards."""
    with own_folder() as folder:
        shutil.copytree(seed.data, folder / "data")
        with (folder / "data" / "tidings.db").open("rb") as copy:
            os.fsync(copy.fileno())
        yield msgspec.structs.replace(seed, data=folder / "data")


async def _make(data: Path, messages: int) -> Seed:
    started = perf_counter()
    async with own_server(data) as target:
        chat = await _make_chat(target)
    await fill(Seed(data, chat, messages), messages)
    (data / MARK).write_bytes(msgspec.json.encode(chat))
    print(f"a chat of {messages:,} messages made in {perf_counter() - started:.1f} s", flush=True)
    return Seed(data, chat, messages)


async def _make_chat(target: Target) -> str:
    rest = Rest(target.url)
    people = People(rest, target.root_key, TENANT)
    try:
        await people.start()
        return await people.group([await people.user(WRITER), await people.user(READER)])
    finally:
        rest.close()


async def fill(seed: Seed, messages: int, expires_at: int | None = None) -> None:
    """Append messages to the chat; no server may have the store open."""

    def broken(trouble: StoreBroken) -> None:
        raise trouble

    async with open_core(Config(data=seed.data), broken) as core:
        state = await core.store.log.state(ChatId(seed.chat))
        assert state is not None, "the chat was made before"
        await core.vault.seal(user_key(TENANT, WRITER), ChatId(seed.chat), "first", CONTENT)
        turn = asyncio.Semaphore(RUNS_UNDER_WAY)
        async with asyncio.TaskGroup() as group:
            for first in range(0, messages, RUN_ENTRIES):
                await turn.acquire()
                count = min(RUN_ENTRIES, messages - first)
                group.create_task(_append(core, _entries(core, state, count, expires_at), turn))


async def _append(core: Core, entries: Sequence[Entry], turn: asyncio.Semaphore) -> None:
    settled: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    run = Run(
        chat_id=entries[0].chat_id,
        entries=list(entries),
        keys=[_key(entry) for entry in entries],
        settle=settled.set_result,
    )
    core.store.log.append(run)
    outcome = await settled
    assert isinstance(outcome, Kept), f"the store said {outcome}"
    turn.release()


def _entries(core: Core, state: ChatState, count: int, expires_at: int | None) -> list[Entry]:
    """Return the next messages, encrypted and stamped as the appender does it."""
    now, writer = core.clock.now(), user_key(TENANT, WRITER)
    return [_entry(core, state, writer, now, expires_at) for _ in range(count)]


def _entry(
    core: Core, state: ChatState, writer: UserKey, now: int, expires_at: int | None
) -> Entry:
    name = f"seed-{state.head + 1:08}"
    sealed = core.vault.seal_nowait(writer, state.chat_id, name, CONTENT)
    assert sealed is not None, "the key is at hand"
    entry = Entry(
        chat_id=state.chat_id,
        kind="message",
        sender=writer,
        client_message_id=name,
        content_type="text/plain",
        box=sealed.box,
        box_key=sealed.box_key,
        expires_at=expires_at,
    )
    state.stamp(entry, now, "seed")
    state.fold(entry)
    return entry


def _key(entry: Entry) -> SendKey:
    assert entry.client_message_id is not None
    return SendKey(
        entry.sender, entry.client_message_id, bytes(16), entry.created_at + limits.SEND_KEY_MS
    )
