# SPDX-License-Identifier: Apache-2.0
"""Creates a chat: one transaction adds its first members, and further transactions add the rest.

If the request has an idempotency key, the first transaction also stores the key with the chat's id.
A repeated request finds the id and continues where the first attempt stopped.
"""

import asyncio
from typing import Final

from tidings.model import limits
from tidings.model.chats import Chat
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import LimitReached, RequestConflict, StoreUnavailable
from tidings.ports.chats import Created, RequestKey
from tidings.ports.log import Kept
from tidings.ports.store import current_requester
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import entry_item, pair_of, to_entry
from tidings.stores.dynamodb.chat.members import TransactionPlan, chat_item, have_room, plan_joining
from tidings.stores.dynamodb.chat.pages import load_state
from tidings.stores.dynamodb.chat.runs import FREE_SLOT, Runs
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import (
    RACE_ATTEMPTS_MAX,
    Canceled,
    ConditionFailed,
    Item,
)
from tidings.stores.dynamodb.client.writes import Put
from tidings.stores.dynamodb.listings import chat_listing
from tidings.stores.dynamodb.patterns import (
    CREATE_CHAT,
    FIND_PAIR,
    FIND_REQUEST,
    FINISH_REQUEST,
    KEEP_REQUEST,
    READ_LOG,
)
from tidings.stores.dynamodb.tables import TTL, request_keys_of, ttl_seconds
from tidings.stores.scheduler import Scheduler, in_turn

LARGE_GROUPS_AT_ONCE: Final = 16
USER_LARGE_GROUPS_AT_ONCE: Final = 2
"""Maximum number of large groups of one user that are created at the same time. It is low, because
a group of a thousand members takes 34 transactions in a row."""

_FREE_REQUEST: Final = "attribute_not_exists(#chat_id) OR #expires_at <= :now"


class ChatMaker:
    """Creates chats: at most one for each request, and one direct chat for each pair of users."""

    def __init__(self, dynamo: Dynamo, runs: Runs, heads: Heads) -> None:
        self._dynamo = dynamo
        self._runs = runs
        self._heads = heads
        self._large = Scheduler(
            "large groups",
            slots=LARGE_GROUPS_AT_ONCE,
            user_slots=USER_LARGE_GROUPS_AT_ONCE,
            user_waiting_max=limits.USER_LARGE_GROUPS_WAITING_MAX,
            waiting_max=limits.LARGE_GROUPS_WAITING_MAX,
        )

    async def create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        """Create a chat, as documented at `ports.chats.Chats.create`."""
        if len(entries) == 1:
            return await self._create(chat, entries, request, now)
        async with in_turn(self._large, current_requester()):
            return await self._create(chat, entries, request, now)

    async def _create(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created:
        async for _ in self._dynamo.retrying.attempts():
            created = await self.find(chat, entries, request, now)
            if created is not None:
                return created
            if await self._begin(chat, entries, request, now):
                break
        else:
            raise StoreUnavailable
        is_new = await self._add_others(entries[1:])
        if request is not None and len(entries) > 1:
            await self._finish(request)
        return Created(chat.chat_id, is_new=is_new)

    # Existing chats.

    async def find(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        """Return the chat that an earlier attempt of this request created, or the direct chat that
        the two users already have.

        If the earlier attempt did not finish, this adds the missing members. Returns None if there
        is no such chat.
        """
        if request is not None:
            kept = await self._dynamo.get(FIND_REQUEST, _request_key(request))
            if kept is not None and kept["expires_at"] > now:
                if kept["digest"] != request.digest:
                    raise RequestConflict
                if not kept["is_finished"]:
                    await self._add_missing(kept["made"], entries)
                    await self._finish(request)
                return Created(kept["made"], is_new=False)
        if chat.type == "direct":
            return await self._find_pair(entries, request, now)
        return None

    async def _find_pair(
        self, entries: list[Entry], request: RequestKey | None, now: int
    ) -> Created | None:
        found = await self._dynamo.get(FIND_PAIR, {"chat_id": _pair(entries)})
        if found is None:
            return None
        made = ChatId(found["made"])
        if request is not None:
            item = _request_item(request, made, is_finished=True)
            try:
                await self._dynamo.put(KEEP_REQUEST, item, _FREE_REQUEST, {":now": now})
            except ConditionFailed as failed:
                if failed.item is None or failed.item["digest"] != request.digest:
                    raise RequestConflict from None
        return Created(made, is_new=False)

    # New chats.

    async def _begin(
        self, chat: Chat, entries: list[Entry], request: RequestKey | None, now: int
    ) -> bool:
        """Create the chat with its first members; return False if another writer was faster."""
        if not await have_room(self._dynamo, entries, is_direct=chat.type == "direct"):
            raise LimitReached("a member has reached the limit of chats")
        created = entries[0]
        item = chat_item(chat, created)
        plan = TransactionPlan()
        plan.add(Put("messages", entry_item(created), FREE_SLOT))
        plan.add(Put("chats", item, "attribute_not_exists(#chat_id)"))
        plan.add(Put("listings", chat_listing(chat.tenant, chat.chat_id)))
        plan_joining(plan, created, is_direct=chat.type == "direct")
        if chat.type == "direct":
            claim = {"chat_id": _pair(entries), "made": chat.chat_id}
            plan.add(Put("chats", claim, "attribute_not_exists(#chat_id)"))
        if request is not None:
            kept = _request_item(request, chat.chat_id, is_finished=len(entries) == 1)
            plan.add(Put("idempotency_keys", kept, _FREE_REQUEST, {":now": now}))
        try:
            await self._dynamo.transact(CREATE_CHAT, plan.writes)
        except Canceled:
            return False
        self._heads.saw_chat(item)
        self._heads.appended(created)
        return True

    async def _add_others(self, entries: list[Entry]) -> bool:
        """Append the entries that add the members who are not in the chat's first entry.

        Each entry already has its sequence. Returns False if another writer has taken one of these
        slots; the remaining members were then added by new entries, with other sequences.
        """
        for index, entry in enumerate(entries):
            match await self._runs.add_people(entry):
                case Kept():
                    continue
                case _:
                    await self._add_missing(entry.chat_id, entries[index:])
                    return False
        return True

    async def _add_missing(self, chat: ChatId, entries: list[Entry]) -> None:
        """Append entries that add the people in `entries`, except people whom the log has already
        added."""
        failures = 0
        while failures < RACE_ATTEMPTS_MAX:
            # Load the state first: if another writer adds people afterwards, the slot after this
            # state's head is taken, and our entry fails.
            state = await load_state(self._dynamo, chat)
            known = await self._ever_added(chat)
            people = [p for entry in entries for p in entry.people if p.user not in known]
            if not people:
                return
            if state is None:
                break
            if state.is_deleted:
                return
            some = tuple(people[: limits.MEMBERS_PER_ENTRY_MAX])
            entry = Entry(chat_id=chat, kind="added", sender=entries[0].sender, people=some)
            state.stamp(entry, entries[0].created_at, entries[0].mark)
            if not isinstance(await self._runs.add_people(entry), Kept):
                failures += 1
                await asyncio.sleep(self._dynamo.retrying.pause_before(failures))
        raise StoreUnavailable

    async def _ever_added(self, chat: ChatId) -> set[UserKey]:
        items = await self._dynamo.query(
            READ_LOG,
            "#chat_id = :chat",
            {":chat": chat, ":created": "created", ":added": "added"},
            only="#kind = :created OR #kind = :added",
        )
        return {person.user for item in items for person in to_entry(item).people}

    async def _finish(self, request: RequestKey) -> None:
        """Record that all members are added, so that a repeat of the request does not check
        them."""
        try:
            await self._dynamo.update(
                FINISH_REQUEST,
                _request_key(request),
                "SET #is_finished = :yes",
                "#digest = :digest",
                {":yes": True, ":digest": request.digest},
            )
        except ConditionFailed:
            return  # the request has expired, and another request has claimed its key


def _pair(entries: list[Entry]) -> str:
    """Return the key that claims the direct chat of the two users whom the first entry adds."""
    users = [person.user for entry in entries for person in entry.people]
    assert len(users) == 2, f"a direct chat has two members, got {len(users)}"
    return pair_of(*users)


def _request_key(request: RequestKey) -> Item:
    return {"chat_id": request_keys_of(request.user), "claim": request.key}


def _request_item(request: RequestKey, made: ChatId, *, is_finished: bool) -> Item:
    return {
        **_request_key(request),
        "digest": request.digest,
        "made": made,
        "is_finished": is_finished,
        "expires_at": request.expires_at,
        TTL: ttl_seconds(request.expires_at),
    }
