# SPDX-License-Identifier: Apache-2.0
"""The log on DynamoDB.

Runs of one chat are written in order; runs of different chats are written concurrently.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from tidings.logs.requests import set_requests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Kind, SendKey, head_of
from tidings.model.formats import PACKS, SETTINGS
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import ChatBusy
from tidings.ports.log import Log, Page, Run, Sent
from tidings.ports.people import Listed
from tidings.ports.secrets import Deployment
from tidings.ports.store import set_requester, user_requester
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import claim_key, reactions_of, to_reaction
from tidings.stores.dynamodb.chat.packs import fits
from tidings.stores.dynamodb.chat.pages import (
    find_down,
    find_replies,
    find_up,
    item_at,
    items_after,
    items_after_entry,
    load_state,
    membership_row,
    to_entries,
)
from tidings.stores.dynamodb.chat.runs import Runs
from tidings.stores.dynamodb.chat.shown_pages import (
    admit,
    list_mentions,
    message_page,
    pinned_page,
    settled_messages,
)
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.patterns import (
    FIND_KEY,
    MOVE_HINT,
    READ_REACTIONS,
)
from tidings.tasks import Tasks

log = logging.getLogger("tidings.dynamodb")

_NEW_KINDS: Final = frozenset({"settings", "pinned", "unpinned"})
"""Kinds of entries that are written only in the newest format."""
CHATS_AT_ONCE: Final = 64
PACKED_WAITING_MAX: Final = 4_096
WAITING_MAX: Final = 512
"""Maximum number of requests that wait for one chat, if messages may not be packed. They are
carried out one by one, a hundred or more per second, so the last one waits a few seconds. The limit
is high enough for all messages that a user wrote while offline."""
SEARCH_STEP_FIRST: Final = 8
SEARCH_STEP: Final = 100
SEARCH_MAX: Final = 2_000
"""Maximum number of entries that one search reads. The client is then asked to repeat the send, and
the next search continues where this one ended."""
SEARCHED_ENTRIES_MAX: Final = 100
"""After a search through more entries than this, the claim's `hint` is moved forward, so that the
next search is shorter."""


class DynamoLog:
    """The ordered entries of each chat."""

    def __init__(self, dynamo: Dynamo, runs: Runs, heads: Heads, deployment: Deployment) -> None:
        self._dynamo = dynamo
        self._deployment = deployment
        self._runs = runs
        self._heads = heads
        self._to_make: deque[Callable[[], Run | None]] = deque()
        self._waiting: dict[ChatId, deque[Run]] = {}
        self._tasks = Tasks("log")

    @property
    def takes_after(self) -> bool:
        return self._deployment.writes >= PACKS

    def may_append(self, kind: Kind, *, has_options: bool = False) -> bool:
        is_new = has_options or kind in _NEW_KINDS
        return not is_new or self._deployment.writes >= SETTINGS

    def has_room(self, run: Sequence[Entry], entry: Entry) -> bool:
        # Without packs, a message costs one unit on its own, but two units in a transaction.
        return self._deployment.writes >= PACKS and fits(run, entry)

    @property
    def waiting_max(self) -> int:
        return PACKED_WAITING_MAX if self._deployment.writes >= PACKS else WAITING_MAX

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
            set_requests(run.requests())
            outcome = await self._runs.write(run)
            declared.commit_entries.of[()].observe(len(run.entries))
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
        items = await items_after_entry(self._dynamo, chat, after, limits.TAIL_ENTRIES_MAX)
        entries = await to_entries(self._dynamo, items)
        if entries:
            self._heads.saw(chat, head_of(entries[-1]))
        return entries

    async def entry(self, chat: ChatId, sequence: int) -> Entry | None:
        item = await item_at(self._dynamo, chat, sequence)
        return None if item is None else (await to_entries(self._dynamo, [item]))[0]

    async def find_sent(self, chat: ChatId, key: SendKey, now: int) -> Sent | None:
        claim = await self._dynamo.get(FIND_KEY, claim_key(chat, key))
        if claim is not None and claim["expires_at"] <= now:
            claim = None
        if claim is not None:
            start = claim["hint"]
        elif key.after is not None:  # another process may have packed this message
            start = key.after + 1
        else:
            return None
        found, searched = await self._search(chat, key, start)
        if found is not None:
            (entry,) = await to_entries(self._dynamo, [found])
            # A message that was stored without a key has its own digest. The key is then that of a
            # repeat, whose content may be different.
            digest = entry.digest or (claim["digest"] if claim else None)
            return Sent(digest=digest, entry=entry)
        if claim is None:
            return None
        if searched - start >= SEARCHED_ENTRIES_MAX:
            await self._move_hint(chat, key, claim, searched + 1)
        if searched - start >= SEARCH_MAX:
            raise ChatBusy
        return Sent(digest=claim["digest"], entry=None)

    async def _search(self, chat: ChatId, key: SendKey, start: int) -> tuple[Item | None, int]:
        """Return the entry that was stored for this send, or None, and where the search ended.

        The first entry nearly always matches. The search ends at the end of the log, or after
        `SEARCH_MAX` entries.
        """
        last, step = start - 1, SEARCH_STEP_FIRST
        while last - start < SEARCH_MAX:
            items = await items_after(self._dynamo, chat, last, step)
            for item in items:
                if (item["sender"], item.get("client_message_id")) == (
                    key.sender,
                    key.client_message_id,
                ):
                    return item, item["sequence"]
            last += len(items)
            if len(items) < step:
                break
            step = SEARCH_STEP
        return None, last

    async def _move_hint(self, chat: ChatId, key: SendKey, claim: Item, hint: int) -> None:
        """Set the claim's `hint` to a later sequence, because no entry before it is from this
        send."""
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
            found = await find_down(
                self._dynamo,
                chat,
                before,
                limit,
                only_messages=only_messages,
                head_min=self._heads.known(chat).sequence,
            )
            self._heads.saw(chat, found.head)
        return await admit(self._dynamo, chat, reader, found)

    async def settled_messages(
        self, chat: ChatId, reader: UserKey, first: int, last: int
    ) -> list[Entry]:
        return await settled_messages(self._dynamo, chat, reader, first, last)

    async def message(self, chat: ChatId, reader: UserKey, sequence: int) -> Page | None:
        return await message_page(self._dynamo, chat, reader, sequence)

    async def replies(
        self, chat: ChatId, reader: UserKey, sequence: int, *, after: int, limit: int
    ) -> Page | None:
        found = await find_replies(self._dynamo, chat, sequence, after, limit)
        return await admit(self._dynamo, chat, reader, found)

    async def pins(self, chat: ChatId, reader: UserKey) -> tuple[Page, list[Entry]] | None:
        return await pinned_page(self._dynamo, chat, reader)

    async def mentions(
        self, user: UserKey, *, since: int, below: str | None, limit: int
    ) -> Listed[Entry]:
        return await list_mentions(self._dynamo, user, since, below, limit)

    async def reactions(
        self, chat: ChatId, reader: UserKey, sequence: int, limit: int
    ) -> list[tuple[str, UserKey, int]] | None:
        target = await item_at(self._dynamo, chat, sequence)
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
