# SPDX-License-Identifier: Apache-2.0
"""The product under test, driven step by step from code that is not asynchronous."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.contract.preview_rules import broken_previews
from tests.integration.cores import Deployment, open_deployment
from tests.model.lines import NO_OPTIONS, Options
from tests.support.clock import ManualClock
from tests.support.engine import Settings
from tests.support.waiting import until
from tidings.actions.verbs import ChatVerbs
from tidings.buses.in_process import InProcessBus
from tidings.delivery.relay import Republisher
from tidings.model.chats import Receipt
from tidings.model.entries import Entry, Poster, SendOptions
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Refusal
from tidings.stores.dynamodb.store import DynamoStore

T = TypeVar("T")

Engine = Callable[[], AbstractAsyncContextManager[Settings]]
"""Makes an engine with nothing in it, for as long as the context is open."""

SETTLED_WITHIN_S: Final = 60
NOT_ALONE: Final[dict[str, Any]] = {
    "bus": "kafka",
    "kafka_bootstrap": "127.0.0.1:9",
    "registry": "redis",
    "redis_url": "redis://127.0.0.1:9",
    "root_key": "root-key-of-the-tests-0123456789abcdef",
    "master_key": bytes(range(32)),
}
"""Settings of processes that share tables. A core alone talks to neither service."""


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers can be brought forward."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


class Product:
    """One deployment on one event loop, closed and opened again at will."""

    def __init__(
        self, engine: Engine, folder: Path, users: list[UserKey], processes: int = 1
    ) -> None:
        """With several processes, the engine must be one that they can share."""
        self.clock = ManualClock()
        self.is_alone = processes == 1
        self._folder = folder
        self._loop = SkippingLoop()
        self._engine = AsyncExitStack()
        self._settings: dict[str, Any] = {
            **self.run(self._engine.enter_async_context(engine())),
            **({} if self.is_alone else {**NOT_ALONE, "attachments_folder": folder / "files"}),
        }
        self._stack = AsyncExitStack()
        self._current = 0
        self._deployments = [self._open() for _ in range(processes)]
        self.run(self.deployment.people(*users))

    @property
    def deployment(self) -> Deployment:
        """The process that does what is asked for."""
        return self._deployments[self._current]

    def switch(self) -> None:
        """Let the next process do what is asked for from now on."""
        self._current = (self._current + 1) % len(self._deployments)

    @property
    def verbs(self) -> ChatVerbs:
        return self.deployment.core.verbs

    @property
    def is_swept(self) -> bool:
        """Whether expired content goes when the sweeper runs; other engines have no need of it."""
        return not self._settings

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run this to its end."""
        return self._loop.run_until_complete(work)

    def restart(self) -> None:
        """Stop cleanly and start again on the same data."""
        self.run(self._stack.aclose())
        self._deployments = [self._open() for _ in self._deployments]

    def spread_ban(self, user: UserKey, until: int) -> None:
        """Let all processes know of a ban or of its end, as the revocation feed does."""
        for deployment in self._deployments:
            deployment.core.bans.learn(user, until)

    def authenticate(self, users: Sequence[UserKey]) -> None:
        """Let all processes check the credentials of these users, as before every request."""
        for deployment in self._deployments:
            for user in users:
                self.run(deployment.core.credential_status.stored(user, None))

    def _open(self) -> Deployment:
        opening = open_deployment(self._folder, clock=self.clock, settings=self._settings)
        return self.run(self._stack.enter_async_context(opening))

    async def deliver(self, chats: Iterable[ChatId]) -> None:
        """Write the head copies up to the ends of the logs, as delivery does in a fleet."""
        core = self.deployment.core
        if self.is_alone or core.deliveries is None:
            return
        again = Republisher(core.store.log, core.deliveries, core.vault, InProcessBus(), core.clock)
        for chat, reached in (await core.deliveries.reached(list(chats))).items():
            state = await core.store.log.state(chat)
            if state is not None and state.head > reached:
                await again.deliver(chat, after=reached, up_to=state.head)

    async def flush(self, user: UserKey, chat: ChatId) -> None:
        """Write what waits in any process; what is marked in another does not wait for it."""
        for deployment in self._deployments:
            await deployment.core.receipts.settle(user, chat)

    def check_copies(self) -> None:
        """No copy of a message shows what the message is not."""
        store = self.deployment.core.store
        if isinstance(store, DynamoStore):
            assert self.run(broken_previews(store.chats._dynamo)) == []

    def close(self) -> None:
        """Stop for good."""
        self.run(self._stack.aclose())
        self.run(self._engine.aclose())
        self.run(self._loop.shutdown_default_executor())
        self._loop.close()

    async def send(
        self,
        user: UserKey,
        chat: ChatId,
        cmid: str,
        text: str,
        ttl_seconds: int | None,
        options: Options = NO_OPTIONS,
    ) -> tuple[Entry, bool]:
        """The message as its sender gets to see it, and whether it is a replay."""
        future: asyncio.Future[tuple[Entry | Refusal, bool]] = self._loop.create_future()

        def answer(result: Entry | Refusal, is_replay: bool) -> None:
            future.set_result((result, is_replay))

        target, mentions, is_by_tenant, files = options
        posted_by: Poster | None = "tenant" if is_by_tenant else None
        more = None
        if options != NO_OPTIONS:
            more = SendOptions(target, mentions, posted_by=posted_by, attachments=files)
        self.verbs.post(user, chat, cmid, text, None, ttl_seconds, answer, options=more)
        result, is_replay = await future
        if isinstance(result, Refusal):
            raise result
        if is_replay:
            await self.deployment.core.vault.open([result], self.clock.now())
        return result, is_replay

    async def send_all(
        self, chat: ChatId, sends: Sequence[tuple[UserKey, str, str]]
    ) -> list[tuple[Entry, bool]]:
        """Messages of these users under these ids, sent at once."""
        work = (self.send(user, chat, cmid, text, None) for user, cmid, text in sends)
        return await asyncio.gather(*work)

    async def log(
        self,
        reader: UserKey,
        chat: ChatId,
        *,
        up: bool,
        only_messages: bool,
        start: int,
        limit: int,
    ) -> list[Entry]:
        """Every entry from the start on, page by page, upwards or downwards."""
        read = self.verbs.read.messages if only_messages else self.verbs.read.entries
        found: list[Entry] = []
        place: int | None = start
        while place is not None:
            after, before = (place, None) if up else (None, place)
            page = await read(reader, chat, after=after, before=before, limit=limit)
            assert len(page.entries) <= limit
            assert page.next is None or (page.next > place if up else page.next < place)
            found += page.entries
            place = page.next
        return found

    async def receipts(self, reader: UserKey, chat: ChatId) -> dict[str, Receipt]:
        """The receipts of all members."""
        return {receipt.user: receipt for receipt in await self.verbs.receipts(reader, chat)}

    async def settle(self, is_settled: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Let the time pass after which receipts are written, and wait until they are."""
        self._loop.skipped += 60
        await until(is_settled, seconds=SETTLED_WITHIN_S)


def chat_calls(
    verbs: ChatVerbs, user: UserKey, chat: ChatId, target: int, other: UserKey
) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """All that a user can do with a chat, apart from sending."""
    read = verbs.read
    return {
        "get": lambda: verbs.get(user, chat),
        "entries": lambda: read.entries(user, chat, after=0, limit=10),
        "entries down": lambda: read.entries(user, chat, before=10, limit=10),
        "replies": lambda: read.replies(user, chat, target, after=0, limit=10),
        "pins": lambda: read.pins(user, chat),
        "pin": lambda: verbs.pin(user, chat, target),
        "messages": lambda: read.messages(user, chat, after=0, limit=10),
        "messages down": lambda: read.messages(user, chat, before=10, limit=10),
        "one": lambda: read.one(user, chat, target),
        "members": lambda: verbs.members(user, chat),
        "receipts": lambda: verbs.receipts(user, chat),
        "reactions": lambda: verbs.reactions(user, chat, target),
        "mark": lambda: verbs.mark(user, chat, 1, 1),
        "mute": lambda: verbs.mute(user, chat, None),
        "mark unread": lambda: verbs.mark_unread(user, chat, target),
        "mark no longer unread": lambda: verbs.mark_unread(user, chat, None),
        "hide": lambda: verbs.hide(user, chat, is_hidden=True),
        "message receipts": lambda: verbs.message_receipts(user, chat, target, None, 10),
        "edit": lambda: verbs.edit(user, chat, target, "changed"),
        "redact": lambda: verbs.redact(user, chat, target),
        "react": lambda: verbs.react(user, chat, target, "👍"),
        "put member": lambda: verbs.put_member(user, chat, other, "owner"),
        "remove member": lambda: verbs.remove_member(user, chat, other),
        "rename": lambda: verbs.rename(user, chat, "Mine"),
    }
