# SPDX-License-Identifier: Apache-2.0
"""A process that sends, reads and is paused while another one erases the authors.

It gets the names of chats on its command line, one for each author, and the ends of erasures on
standard input. When it has seen enough of an author it prints what it saw. Times are those of the
monotonic clock, which all processes of a machine share.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.contract.engines import DynamoEngine
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.reading import ReadPage
from tidings.actions.chat.sending import Post
from tidings.actions.content.data_keys import KeyLeases
from tidings.actions.content.vault import Vault
from tidings.actions.identity.blocks import NoBlocks
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.assembly.system import SystemChance, SystemClock, back_off
from tidings.buses.in_process import InProcessBus
from tidings.keyrings import FileKeyring
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey, user_key
from tidings.model.refusals import Refusal, StoreUnavailable
from tidings.ports.sessions import Erasure, Revocation, Revocations
from tidings.ports.store import Store
from tidings.ports.world import FailpointName

SHORTER: Final = 4
"""Everything that waits is so many times shorter than in a deployment."""
LEASES: Final = KeyLeases(
    open_seconds=limits.REVOKED_SECONDS_MAX / SHORTER,
    seal_seconds=limits.SEAL_SECONDS_MAX / SHORTER,
    erasing_seconds=limits.ERASING_SECONDS / SHORTER,
)
LOOK_SECONDS: Final = 2.0 / SHORTER
SENDS_AFTERWARDS: Final = 2


def author_of(number: int) -> UserKey:
    """Whoever writes in a chat."""
    return user_key("acme", f"author{number}")


class Pauses:
    """Failpoints at which the whole process stands still now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def armed(self, place: FailpointName) -> bool:
        return False

    def reach(self, place: FailpointName) -> None:
        if place != "after_commit_before_answer" and self._chance.random() < 0.05:
            time.sleep(self._chance.uniform(0, 2 * LEASES.erasing_seconds))


class PatchyFeed:
    """The feed, which cannot be read for a while now and then."""

    def __init__(self, feed: Revocations, chance: random.Random) -> None:
        self._feed = feed
        self._chance = chance
        self._away_until = 0.0

    async def append(self, revocation: Revocation) -> None:
        await self._feed.append(revocation)

    async def head(self) -> int:
        return await self._feed.head()

    async def after(self, place: int) -> list[Revocation]:
        if self._chance.random() < 0.1:
            away = self._chance.uniform(0, 3 * LEASES.open_seconds)
            self._away_until = time.monotonic() + away
        if time.monotonic() < self._away_until:
            raise StoreUnavailable
        return await self._feed.after(place)

    async def erasures(self, tenant: str, after: int, limit: int) -> list[Erasure]:
        return await self._feed.erasures(tenant, after, limit)


class Author:
    """One author, who writes and reads all the time."""

    def __init__(self, user: UserKey, chat: ChatId, post: Post, read: ReadPage) -> None:
        self.erased_at: float | None = None
        self._user = user
        self._chat = chat
        self._post = post
        self._read = read
        self._sends: list[dict[str, Any]] = []
        self._reads: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Until enough was seen; then say what it was."""
        while not any(send["sequence"] for send in self._sends):
            await self._send()
        print(json.dumps({"chat": self._chat, "began": True}), flush=True)
        while not self._has_seen_enough():
            await self._send()
            await self._look()
        seen = {"chat": self._chat, "sends": self._sends, "reads": self._reads[-200:]}
        print(json.dumps(seen), flush=True)

    def _has_seen_enough(self) -> bool:
        erased_at = self.erased_at
        if erased_at is None or not self._reads:
            return False
        if self._reads[-1]["began"] <= erased_at + LEASES.open_seconds:
            return False
        later = [s for s in self._sends if s["asked"] > erased_at and s["sequence"]]
        return len(later) >= SENDS_AFTERWARDS

    async def _send(self) -> None:
        done: asyncio.Future[Entry | Refusal] = asyncio.get_running_loop().create_future()
        asked = time.monotonic()
        name = f"m{len(self._sends)}"
        self._post(self._user, self._chat, name, name, None, None, lambda e, _: done.set_result(e))
        result = await done
        sequence = None if isinstance(result, Refusal) else result.sequence
        self._sends.append({"asked": asked, "answered": time.monotonic(), "sequence": sequence})

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            page = await self._read.messages(self._user, self._chat, before=10**6, limit=100)
        except Refusal:
            return
        shown = [entry.sequence for entry in page.entries if entry.content is not None]
        self._reads.append({"began": began, "shown": shown})


async def listen(authors: dict[ChatId, Author]) -> None:
    """Hear from the other process whose erasure was answered, and when."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        told = json.loads(line)
        authors[ChatId(told["chat"])].erased_at = told["at"]


async def serve(store: Store, folder: Path, chats: list[ChatId], chance: random.Random) -> None:
    """All authors side by side."""
    vault = Vault(
        store.data_keys,
        store.deployment,
        FileKeyring(folder, SystemChance()),
        SystemChance(),
        SystemClock(),
        LEASES,
    )
    await vault.start()
    watch = RevocationWatch(
        PatchyFeed(store.revocations, chance),
        look_seconds=LOOK_SECONDS,
        blind_seconds_max=LEASES.open_seconds,
    )
    vault.follow(watch)
    await watch.start()
    clock = SystemClock()
    appender = Appender(store.log, InProcessBus(), clock, SystemChance(), back_off)
    post = Post(appender, store.log, vault, clock)
    read = ReadPage(store.log, vault, clock, NoBlocks())
    authors = {
        chat: Author(author_of(number), chat, post, read) for number, chat in enumerate(chats)
    }
    listening = asyncio.create_task(listen(authors))
    await asyncio.gather(*(author.run() for author in authors.values()))
    listening.cancel()
    await appender.close()
    await watch.close()
    await vault.close()


async def main(endpoint: str, prefix: str, folder: str, seed: str, *chats: str) -> None:
    """Run until all authors are done."""
    chance = random.Random(seed)
    shorter = limits.SEALED_WRITE_SECONDS_MAX / SHORTER
    setattr(limits, "SEALED_WRITE_SECONDS_MAX", shorter)  # noqa: B010 - it is a constant
    async with DynamoEngine(endpoint, prefix).open(Pauses(chance)) as store:
        await serve(store, Path(folder), [ChatId(chat) for chat in chats], chance)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
