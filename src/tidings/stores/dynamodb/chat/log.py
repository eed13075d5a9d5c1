# SPDX-License-Identifier: Apache-2.0
"""The log on DynamoDB.

Runs of one chat are written in order; runs of different chats are written concurrently.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendKey, head_of
from tidings.model.ids import ChatId, UserKey
from tidings.ports.log import Log, Page, Run, Sent
from tidings.ports.store import set_requester, user_requester
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import claim_key, entry_key, reactions_of, to_reaction
from tidings.stores.dynamodb.chat.pages import (
    admit,
    find_down,
    find_up,
    items_after,
    load_state,
    membership_row,
    message_page,
    to_entries,
)
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.patterns import (
    FIND_KEY,
    MOVE_HINT,
    READ_ENTRY,
    READ_REACTIONS,
)
from tidings.tasks import Tasks

log = logging.getLogger("tidings.dynamodb")

CHATS_AT_ONCE: Final = 64
WAITING_MAX: Final = 512
"""Maximum number of requests that wait for one chat. They are carried out one by one, a hundred or
more per second, so the last one waits a few seconds. The limit is high enough for all messages that
a user wrote while offline."""
SEARCH_STEP_FIRST: Final = 8
SEARCH_STEP: Final = 100
SEARCHED_ENTRIES_MAX: Final = 100
"""After a search through more entries than this, the claim's `hint` is moved forward, so that the
next search is shorter."""


class DynamoLog:
    """The ordered entries of each chat."""

    def __init__(self, dynamo: Dynamo, runs: Runs, heads: Heads) -> None:
        self._dynamo = dynamo
        self._runs = runs
        self._heads = heads
        self._to_make: deque[Callable[[], Run | None]] = deque()
        self._waiting: dict[ChatId, deque[Run]] = {}
        self._tasks = Tasks("log")

    @property
    def run_entries_max(self) -> int:
        """Always 1, because a message costs one unit on its own, but two units in a transaction."""
        return 1

    @property
    def waiting_max(self) -> int:
        return WAITING_MAX

    def append(self, run: Run) -> None:
        self.append_later(lambda: run)

    def append_later(self, make_run: Callable[[], Run | None]) -> None:
        self._to_make.append(make_run)
        self._start_some()

    def _start_some(self) -> None:
        """Start writing to as many chats as allowed; a run waits for earlier runs of its chat."""
        while self._to_make and len(self._waiting) < CHATS_AT_ONCE:
            run = _made(self._to_make.popleft())
            if run is None:
                continue
            waiting = self._waiting.get(run.chat_id)
            if waiting is not None:
                waiting.append(run)
            else:
                self._waiting[run.chat_id] = deque([run])
                self._tasks.start(self._write_all(run.chat_id))

    async def _write_all(self, chat: ChatId) -> None:
        waiting = self._waiting[chat]
        while waiting:
            run = waiting[0]
            set_requester(user_requester(run.entries[0].sender))
            outcome = await self._runs.write(run)
            waiting.popleft()
            if not waiting:
                del self._waiting[chat]
            try:
                run.settle(outcome)
            except Exception:
                log.exception("settling a run failed", extra={"action": "settle_failed"})
        self._start_some()

    async def close(self) -> None:
        """Write all waiting runs."""
        await self._tasks.finish()
        await self._runs.close()

    async def state(self, chat: ChatId) -> ChatState | None:
        return await load_state(self._dynamo, chat)

    async def tail(self, chat: ChatId, after: int) -> list[Entry]:
        items = await items_after(self._dynamo, chat, after, limits.TAIL_ENTRIES_MAX)
        entries = await to_entries(self._dynamo, items)
        if entries:
            self._heads.saw(chat, head_of(entries[-1]))
        return entries

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        claim = await self._dynamo.get(FIND_KEY, claim_key(chat, key))
        if claim is None or claim["expires_at"] <= now:
            return None
        found = await self._search(chat, key, claim)
        entries = await to_entries(self._dynamo, [found] if found else [])
        return Sent(digest=claim["digest"], entry=entries[0] if entries else None)

    async def _search(self, chat: ChatId, key: SendKey, claim: Item) -> Item | None:
        """Return the entry that was stored for this send, or None.

        The search starts at the sequence in the claim's `hint`; the first entry there nearly always
        matches.
        """
        last, step = claim["hint"] - 1, SEARCH_STEP_FIRST
        while True:
            items = await items_after(self._dynamo, chat, last, step)
            for item in items:
                if (item["sender"], item.get("client_message_id")) == (
                    key.sender,
                    key.client_message_id,
                ):
                    return item
            last += len(items)
            if len(items) < step:
                break
            step = SEARCH_STEP
        if last + 1 - claim["hint"] > SEARCHED_ENTRIES_MAX:
            await self._move_hint(chat, key, claim, last + 1)
        return None

    async def _move_hint(self, chat: ChatId, key: SendKey, claim: Item, hint: int) -> None:
        """Move the claim's `hint` past the searched entries: none of them is from this send."""
        try:
            await self._dynamo.update(
                MOVE_HINT,
                claim_key(chat, key),
                "SET #hint = :hint",
                "#mark = :mark AND #hint < :hint",
                {":hint": hint, ":mark": claim["mark"]},
            )
        except ConditionFailed:
            return  # another call moved the hint further or claimed the key again

    async def page(
        self,
        chat: ChatId,
        reader: UserKey,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
        only_messages: bool = False,
    ) -> Page | None:
        assert (after is None) != (before is None), "a page goes up or down"
        if after is not None:
            found = await find_up(self._dynamo, chat, after, limit, only_messages=only_messages)
        else:
            assert before is not None
            found = await find_down(self._dynamo, chat, before, limit, only_messages=only_messages)
        return await admit(self._dynamo, chat, reader, found)

    async def message(self, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
        return await message_page(self._dynamo, chat, reader, sequence)

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        target = await self._dynamo.get(READ_ENTRY, entry_key(chat, sequence))
        rows: list[Item] = []
        if target is not None and "reactions" in target:
            rows = await self._dynamo.query(
                READ_REACTIONS, "#message_id = :message", {":message": reactions_of(chat, sequence)}
            )
        if await membership_row(self._dynamo, chat, reader) is None:
            return None
        given = [to_reaction(row) for row in rows]
        given.sort(key=lambda reaction: (reaction[2], reaction[0], reaction[1]))
        return given[:limit]


def _made(make_run: Callable[[], Run | None]) -> Run | None:
    try:
        return make_run()
    except Exception:
        log.exception("a run could not be made", extra={"action": "run_not_made"})
        return None


_conforms: type[Log] = DynamoLog
