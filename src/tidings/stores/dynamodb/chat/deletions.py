# SPDX-License-Identifier: Apache-2.0
"""Deletes chats on DynamoDB in steps of 25 items, and stores the progress after each step.

A job is one item. While the job is unfinished, a second item lists it in the partition of open
jobs. A search for work reads only that partition.
"""

from functools import partial
from typing import Any, Final

import msgspec

from tidings.model.attachments import ERASED_FILES_MS
from tidings.model.entries import Deletion, Entry, deletion_of
from tidings.model.ids import ChatId, tenant_itself
from tidings.model.limits import DELETION_LEASE_MS
from tidings.ports.chats import Deletions
from tidings.stores.dynamodb.chat import deletion_patterns as patterns
from tidings.stores.dynamodb.chat.items import (
    BODY,
    body_key,
    entry_key,
    pair_of,
    reactions_of,
    receipt_key,
    to_entry,
)
from tidings.stores.dynamodb.chat.link_patterns import KEEP_VISITS
from tidings.stores.dynamodb.chat.links import mention_items, pin_key, replies_of
from tidings.stores.dynamodb.chat.members import TransactionPlan
from tidings.stores.dynamodb.chat.packs import IN_PACK, emptied_pack
from tidings.stores.dynamodb.chat.pages import items_after
from tidings.stores.dynamodb.chat.search import forget_index
from tidings.stores.dynamodb.chat.uploads import visits_of
from tidings.stores.dynamodb.client.dynamo import BATCH_WRITE_MAX, Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put, Update
from tidings.stores.dynamodb.listings import chat_listing
from tidings.stores.dynamodb.patterns import (
    FIND_PAIR,
    FORGET_REACTIONS,
    LIST_MEMBERS,
    READ_REACTIONS,
)

UNFINISHED_LISTED_MAX: Final = 1_000
OPEN: Final = "deletions"
"""Partition that lists the unfinished jobs."""
_JOB: Final = "deletion#"
_FREE: Final = (
    "attribute_exists(#pk) AND"
    " (attribute_not_exists(#holder) OR #holder = :holder OR #leased_until <= :now)"
)
_LEFT_OUT: Final = (
    "box", "box_key", BODY, "reactions", "client_message_id", "content_type", "expires_at",
    "edited_at", "target", "emoji", "people", "name", "digest", "reply_to", "reply_count",
    "mentions", "pinned", "silent", "posted_by", "files",
)  # fmt: skip
_EMPTY: Final = "SET #sender = :nobody, #redacted = :yes REMOVE " + ", ".join(
    f"#{name}" for name in _LEFT_OUT
)


class DynamoDeletions:
    """Stores and performs deletion jobs; leases keep two processes from working on one job."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo
        self._without_members: set[ChatId] = set()
        """Chats whose members this process has already removed. Only their content is left."""

    async def get(self, chat: ChatId) -> Deletion | None:
        item = await self._dynamo.get(patterns.FIND_DELETION, _key(chat))
        return _to_deletion(item) if item else None

    async def unfinished(self, *, before: int, limit: int) -> list[ChatId]:
        items = await self._dynamo.query(
            patterns.LIST_DELETIONS, "#pk = :open", {":open": OPEN}, limit=UNFINISHED_LISTED_MAX
        )
        created = {ChatId(item["sk"]): item["created_at"] for item in items}
        self._without_members &= created.keys()
        # Chats that still have members come first, because members can still read. Removing the
        # content takes long and can wait.
        due = [chat for chat in created if created[chat] <= before]
        due.sort(key=lambda chat: (chat in self._without_members, created[chat]))
        return due[:limit]

    async def lease(self, chat: ChatId, holder: str, now: int) -> Deletion | None:
        update = "SET #holder = :holder, #leased_until = :until"
        values = {":holder": holder, ":now": now, ":until": now + DELETION_LEASE_MS}
        try:
            item = await self._dynamo.update(
                patterns.MOVE_DELETION, _key(chat), update, _FREE, values
            )
        except ConditionFailed:
            return None
        return _to_deletion(item)

    async def step(self, deletion: Deletion, holder: str, now: int) -> Deletion | None:
        after = msgspec.structs.replace(await self._step(deletion, now), updated_at=now)
        update = "SET #phase = :phase, #emptied = :emptied, #updated_at = :now"
        values = {":phase": after.phase, ":emptied": after.emptied, ":now": now, ":holder": holder}
        try:
            await self._dynamo.update(
                patterns.MOVE_DELETION, _key(after.chat_id), update, "#holder = :holder", values
            )
        except ConditionFailed:
            return None
        if after.phase != "started":
            self._without_members.add(after.chat_id)
        if after.phase == "done":
            await self._dynamo.delete(patterns.FINISH_DELETION, _open_key(after.chat_id))
        return after

    async def _step(self, job: Deletion, now: int) -> Deletion:
        match job.phase:
            case "started":
                return await self._remove_members(job)
            case "members_removed":
                return await self._remove_claims(job)
            case "keys_removed":
                after = await self._empty_entries(job, now)
                if after.phase == "done":
                    # Earlier, it could be built again from what was not empty yet.
                    await forget_index(self._dynamo, job.chat_id)
                return after
            case "done":
                return job

    async def _remove_members(self, job: Deletion) -> Deletion:
        """Remove some members and their receipts.

        The receipts are deleted first, because a repeated step finds them through the memberships.
        """
        chat = job.chat_id
        rows = await self._dynamo.query(
            LIST_MEMBERS, "#chat_id = :chat", {":chat": chat}, limit=BATCH_WRITE_MAX
        )
        receipts = [receipt_key(row["user_id"], chat) for row in rows]
        await self._dynamo.batch_write(patterns.FORGET_RECEIPTS, deletes=receipts)
        await self._dynamo.batch_write(patterns.FORGET_MEMBERS, deletes=receipts)
        if len(rows) == BATCH_WRITE_MAX:
            return job
        update = "SET #member_count = :none, #first_members = :nobody REMOVE #name, #preview"
        values: Item = {":none": 0, ":nobody": []}
        await self._dynamo.update(patterns.FORGET_CHAT, {"chat_id": chat}, update, values=values)
        await self._dynamo.delete(patterns.UNLIST_CHAT, chat_listing(job.tenant, chat))
        return msgspec.structs.replace(job, phase="members_removed")

    async def _remove_claims(self, job: Deletion) -> Deletion:
        rows = await self._dynamo.query(
            patterns.LIST_CLAIMS, "#chat_id = :chat", {":chat": job.chat_id}, limit=BATCH_WRITE_MAX
        )
        keys = [_only(row, "chat_id", "claim") for row in rows]
        await self._dynamo.batch_write(patterns.FORGET_CLAIMS, deletes=keys)
        is_over = len(rows) < BATCH_WRITE_MAX
        return msgspec.structs.replace(job, phase="keys_removed") if is_over else job

    async def _empty_entries(self, job: Deletion, now: int) -> Deletion:
        items = await items_after(self._dynamo, job.chat_id, job.emptied, BATCH_WRITE_MAX)
        if not await self._forget_answers(job.chat_id, items):
            return job
        await self._forget_links(job.chat_id, items)
        # A visit before the message is empty would find that it can still be read.
        visits = [
            visit
            for item in items
            for visit in visits_of(item["sender"], item.get("files"), now + ERASED_FILES_MS)
        ]
        await self._dynamo.batch_write(KEEP_VISITS, puts=visits)
        await self._empty_content(job, items)
        last = items[-1]["sequence"] if items else job.entries
        phase = "done" if last >= job.entries else job.phase
        return msgspec.structs.replace(job, phase=phase, emptied=last)

    async def _forget_answers(self, chat: ChatId, items: list[Item]) -> bool:
        """Delete some reactions and replies to messages; return True if none is left."""
        # A redaction deletes the reactions to its message in the background, which can fail.
        partitions = [
            reactions_of(chat, item["sequence"])
            for item in items
            if "reactions" in item or item.get("redacted")
        ]
        partitions += [
            replies_of(chat, item["sequence"]) for item in items if "reply_count" in item
        ]
        return all(
            await gather_bounded(partial(self._forget_partition, name) for name in partitions)
        )

    async def _forget_links(self, chat: ChatId, items: list[Item]) -> None:
        """Delete the items that list messages among pins and mentions."""
        pins = [pin_key(chat, item["pinned"]) for item in items if "pinned" in item]
        await self._dynamo.batch_write(FORGET_REACTIONS, deletes=pins)
        mentions = [key for item in items for key in _mention_keys(item)]
        await self._dynamo.batch_write(patterns.FORGET_CLAIMS, deletes=mentions)

    async def _empty_content(self, job: Deletion, items: list[Item]) -> None:
        """Delete the bodies of messages, and overwrite the messages themselves."""
        bodies = [body_key(job.chat_id, item[BODY]) for item in items if BODY in item]
        await self._dynamo.batch_write(patterns.FORGET_BODIES, deletes=bodies)
        alone = [item for item in items if item["kind"] != "deleted" and IN_PACK not in item]
        await gather_bounded(partial(self._empty, job, item["sequence"]) for item in alone)
        packs: dict[int, list[Item]] = {}
        for item in items:
            if IN_PACK in item:
                packs.setdefault(item[IN_PACK].first, []).append(item)
        await gather_bounded(partial(self._empty_pack, job, *pack) for pack in packs.items())

    async def _empty(self, job: Deletion, sequence: int) -> None:
        values = {":nobody": tenant_itself(job.tenant), ":yes": True}
        where = entry_key(job.chat_id, sequence)
        await self._dynamo.update(
            patterns.EMPTY_ENTRY, where, _EMPTY, "attribute_exists(#chat_id)", values
        )

    async def _empty_pack(self, job: Deletion, first: int, messages: list[Item]) -> None:
        values = {":packed": emptied_pack(messages, tenant_itself(job.tenant))}
        where = entry_key(job.chat_id, first)
        await self._dynamo.update(
            patterns.EMPTY_ENTRY,
            where,
            "SET #packed = :packed",
            "attribute_exists(#packed)",
            values,
        )

    async def _forget_partition(self, name: str) -> bool:
        """Delete some reactions or replies to a message; return True if none is left."""
        rows = await self._dynamo.query(
            READ_REACTIONS,
            "#message_id = :message",
            {":message": name},
            limit=BATCH_WRITE_MAX,
        )
        keys = [_only(row, "message_id", "reaction") for row in rows]
        await self._dynamo.batch_write(FORGET_REACTIONS, deletes=keys)
        return len(rows) < BATCH_WRITE_MAX


async def plan_deletion(dynamo: Dynamo, plan: TransactionPlan, entry: Entry) -> None:
    """Plan the writes that go with a `deleted` entry.

    They mark the chat as deleted and store the deletion job. After the deletion of a direct chat,
    its two users can create a new one.
    """
    chat = {"chat_id": entry.chat_id}
    mark = {":now": entry.created_at}
    is_there = "attribute_exists(#chat_id) AND attribute_not_exists(#deleted_at)"
    plan.add(Update("chats", chat, "SET #deleted_at = :now", is_there, mark))
    rows = await dynamo.query(LIST_MEMBERS, "#chat_id = :chat", {":chat": entry.chat_id}, limit=3)
    if len(rows) == 2:
        # If the chat is a group of two, their pair is not claimed, or their direct chat claims it.
        pair = {"chat_id": pair_of(*(row["user_id"] for row in rows))}
        found = await dynamo.get(FIND_PAIR, pair)
        if found is not None and found["made"] == entry.chat_id:
            plan.add(Delete("chats", pair))
    for item in deletion_items(deletion_of(entry)):
        plan.add(Put("tenants", item))


def deletion_items(job: Deletion) -> list[Item]:
    """Build the item of a job and, unless the job is done, the item that lists it as open."""
    fields: dict[str, Any] = {name: getattr(job, name) for name in job.__struct_fields__}
    item: Item = {**_key(job.chat_id), **fields}
    if job.phase == "done":
        return [item]
    return [item, {**_open_key(job.chat_id), "created_at": job.created_at}]


def is_deletion(item: Item) -> bool:
    """Return True if an item in the table of tenants belongs to a deletion job."""
    pk: str = item["pk"]
    return pk == OPEN or pk.startswith(_JOB)


def _key(chat: ChatId) -> Item:
    return {"pk": f"{_JOB}{chat}", "sk": "job"}


def _open_key(chat: ChatId) -> Item:
    return {"pk": OPEN, "sk": chat}


def _to_deletion(item: Item) -> Deletion:
    return Deletion(**{name: item[name] for name in Deletion.__struct_fields__})


def _mention_keys(item: Item) -> list[Item]:
    if "mentions" not in item:
        return []
    return [_only(mention, "chat_id", "claim") for mention in mention_items(to_entry(item))]


def _only(item: Item, *names: str) -> Item:
    return {name: item[name] for name in names}


_conforms: type[Deletions] = DynamoDeletions
