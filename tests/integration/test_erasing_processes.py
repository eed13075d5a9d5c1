# SPDX-License-Identifier: Apache-2.0
"""Two processes on DynamoDB: one erases, the other reads and seals, with pauses at fail-points.

Every time that matters is a quarter of what it is in a deployment. Nothing here depends on the
machine's pace: a slow one refuses more sends, and keeps the promises all the same.
"""

import asyncio
import json
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.builders import draft, request
from tests.contract.engines import DynamoEngine, Store
from tests.integration.erasing_sender import LEASES, author_of
from tests.support.clock import NOW
from tests.support.dynamo_tables import some_tables
from tidings.actions.content.vault import Vault
from tidings.assembly.system import SystemChance, SystemClock
from tidings.keyrings import FileKeyring
from tidings.model.ids import ChatId

AT_ONCE: Final = 5
"""More would make each of them slower, and the moments that matter rarer."""
ROOT: Final = Path(__file__).parents[2]

Seen = dict[str, Any]


class Eraser:
    """This process: it erases, and reads at the end what is left."""

    def __init__(self, store: Store, vault: Vault, chance: random.Random) -> None:
        self.store = store
        self.vault = vault
        self.chance = chance

    async def erase(self, number: int, chat: ChatId, sender: Process) -> tuple[float, float]:
        """Some time after the author began to write; when it was asked for, and answered."""
        await asyncio.sleep(self.chance.uniform(0, LEASES.erasing_seconds))
        asked = time.monotonic()
        assert await self.vault.erase(author_of(number)) == 1
        answered = time.monotonic()
        assert sender.stdin is not None
        sender.stdin.write(json.dumps({"chat": chat, "at": answered}).encode() + b"\n")
        await sender.stdin.drain()
        return asked, answered

    async def readable(self, number: int, chat: ChatId) -> set[int]:
        """The messages that this process can read now."""
        reader = author_of(number)
        page = await self.store.log.page(chat, reader, before=10**6, limit=100, only_messages=True)
        assert page is not None
        await self.vault.open(page.entries, NOW)
        return {entry.sequence for entry in page.entries if entry.content is not None}


@pytest.fixture
async def eraser(
    dynamodb_endpoint: str, tmp_path: Path
) -> AsyncIterator[tuple[Eraser, tuple[str, str, str]]]:
    folder = tmp_path / "keys"
    folder.mkdir()
    async with some_tables(dynamodb_endpoint) as prefix:
        async with DynamoEngine(dynamodb_endpoint, prefix).open() as store:
            keys = FileKeyring(folder, SystemChance())
            vault = Vault(
                store.data_keys, store.deployment, keys, SystemChance(), SystemClock(), LEASES
            )
            await vault.start()
            yield (
                Eraser(store, vault, random.Random(1)),
                (dynamodb_endpoint, prefix, str(folder)),
            )
            await vault.close()


async def a_round(eraser: Eraser, where: tuple[str, str, str], seed: int, authors: int) -> None:
    """Erase so many authors while another process writes for them."""
    chats = []
    for number in range(authors):
        chat, entries = draft(author_of(number), name="Notes")
        await eraser.store.chats.create(chat, entries, request(f"{seed}-{number}"), NOW)
        chats.append(chat.chat_id)
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.erasing_sender", *where, str(seed), *chats,
        stdin=PIPE, stdout=PIPE, cwd=ROOT,
    )  # fmt: skip
    assert sender.stdout is not None
    erasures: dict[str, asyncio.Task[tuple[float, float]]] = {}
    seen: list[Seen] = []
    while line := await sender.stdout.readline():
        told = json.loads(line)
        chat_id = told["chat"]
        if "began" in told:
            erasing = eraser.erase(chats.index(chat_id), ChatId(chat_id), sender)
            erasures[chat_id] = asyncio.create_task(erasing)
        else:
            seen.append(told)
    assert await sender.wait() == 0
    assert len(seen) == authors
    for one in seen:
        chat_id = ChatId(one["chat"])
        left = await eraser.readable(chats.index(chat_id), chat_id)
        check(one, *await erasures[chat_id], left)


def check(seen: Seen, asked: float, answered: float, left: set[int]) -> None:
    """The promises, for one author."""
    kept = [send for send in seen["sends"] if send["sequence"] is not None]
    later = {send["sequence"] for send in kept if send["asked"] > answered}
    assert later and later <= left, "what was sent after the answer can be read"

    lost = [send for send in kept if send["sequence"] not in left]
    assert all(send["asked"] < answered for send in lost)

    erased = {send["sequence"] for send in kept if send["answered"] < asked}
    assert erased, "something was written before"
    assert not erased & left
    late = [read for read in seen["reads"] if read["began"] > answered + LEASES.open_seconds]
    assert late, "it was looked at afterwards"
    for read in late:
        assert not erased & set(read["shown"])


@pytest.mark.attack("S06", "D23")
@pytest.mark.parametrize(
    "erasures",
    [
        pytest.param(AT_ONCE, marks=pytest.mark.slow),
        pytest.param(500, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
)
async def test_an_erasure_holds_whatever_another_process_does(
    eraser: tuple[Eraser, tuple[str, str, str]], erasures: int
) -> None:
    one, where = eraser
    for seed in range(erasures // AT_ONCE):
        await a_round(one, where, seed, AT_ONCE)
