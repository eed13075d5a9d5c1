# SPDX-License-Identifier: Apache-2.0
"""Uploads on DynamoDB, in the table of reactions.

The uploads of a user are one partition. Visits of the sweeper are items of their own, sorted by
time, in several partitions, so that no partition gets too many writes.
"""

import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from tidings.model.attachments import LATE_BYTES_MS, RESERVED_MS, BlobPart, Upload, attached_ids
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.scheduled import scheduled_id_of
from tidings.ports.attachments import Uploads, Visit
from tidings.ports.log import Declined
from tidings.stores.dynamodb.chat import link_patterns as patterns
from tidings.stores.dynamodb.chat.members import TransactionPlan
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Put, Update

VISIT_PARTITIONS: Final = 16
_PAGE: Final = 100
_FREE: Final = "attribute_exists(#reaction) AND attribute_not_exists(#chat_id)"
_TAKE: Final = "SET #chat_id = :chat, #sequence = :sequence"
_IS_RESERVED: Final = "#scheduled_id = :scheduled"
_IS_UNRESERVED: Final = "attribute_not_exists(#scheduled_id) AND #expires_at > :now"
_KEEP_BYTES: Final = "SET #kept_until = :until"
_IS_KEPT_LESS: Final = (
    "attribute_exists(#reaction) AND (attribute_not_exists(#kept_until) OR #kept_until < :until)"
)

_encode = msgspec.json.Encoder().encode
_parts = msgspec.json.Decoder(tuple[BlobPart, ...])
_part = msgspec.json.Decoder(BlobPart)


class DynamoUploads:
    """Stores uploads and the visits of the sweeper."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def create(self, upload: Upload, visit_at: int) -> None:
        # The visit comes first: a visit without an upload is harmless.
        visit = Visit(upload.owner, upload.attachment_id, visit_at)
        await self._dynamo.put(patterns.PUT_UPLOAD, visit_item(visit))
        await self._dynamo.put(patterns.PUT_UPLOAD, upload_item(upload))

    async def get(self, owner: UserKey, attachment_id: str) -> Upload | None:
        item = await self._dynamo.get(patterns.READ_UPLOAD, upload_key(owner, attachment_id))
        return to_upload(item) if item else None

    async def find(self, owner: UserKey, attachment_ids: Sequence[str]) -> list[Upload]:
        keys = [upload_key(owner, name) for name in attachment_ids]
        return [to_upload(i) for i in await self._dynamo.batch_get(patterns.READ_UPLOADS, keys)]

    async def replace_parts(self, upload: Upload, parts: Sequence[BlobPart]) -> bool:
        values = {":before": _text(upload.parts), ":after": _text(parts)}
        return await self._change(upload, "SET #parts = :after", "#parts = :before", values)

    async def replace_thumbnail(self, upload: Upload, thumbnail: BlobPart, box: bytes) -> bool:
        values: Item = {":after": _text(thumbnail), ":box": box}
        condition = "attribute_not_exists(#thumbnail)"
        if upload.thumbnail is not None:
            condition, values[":before"] = "#thumbnail = :before", _text(upload.thumbnail)
        update = "SET #thumbnail = :after, #box = :box"
        return await self._change(upload, update, condition, values)

    async def _change(self, upload: Upload, update: str, condition: str, values: Item) -> bool:
        key, condition = upload_key(upload.owner, upload.attachment_id), f"{_FREE} AND {condition}"
        try:
            await self._dynamo.update(patterns.CHANGE_UPLOAD, key, update, condition, values)
        except ConditionFailed as failed:
            # A repeated request may find what the first attempt has written.
            stored = failed.item or {}
            after = {"parts": stored.get("parts"), "thumbnail": stored.get("thumbnail")}
            return failed.is_repeat and values[":after"] in after.values()
        return True

    async def reserve(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, now: int
    ) -> bool:
        # The visit comes first: a visit of an upload that is still needed is harmless.
        visit = Visit(owner, attachment_id, now + RESERVED_MS)
        await self._dynamo.put(patterns.PUT_UPLOAD, visit_item(visit))
        key, update = upload_key(owner, attachment_id), "SET #scheduled_id = :scheduled"
        condition = f"{_FREE} AND ({_IS_RESERVED} OR ({_IS_UNRESERVED}))"
        values = {":scheduled": scheduled_id, ":now": now}
        try:
            await self._dynamo.update(patterns.CHANGE_UPLOAD, key, update, condition, values)
        except ConditionFailed:
            return False
        return True

    async def release(
        self, owner: UserKey, attachment_id: str, scheduled_id: str, expires_at: int
    ) -> None:
        visit = Visit(owner, attachment_id, expires_at + LATE_BYTES_MS)  # first, as above
        await self._dynamo.put(patterns.PUT_UPLOAD, visit_item(visit))
        key, update = upload_key(owner, attachment_id), "SET #expires_at = :at REMOVE #scheduled_id"
        values = {":scheduled": scheduled_id, ":at": expires_at}
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.CHANGE_UPLOAD, key, update, _IS_RESERVED, values)

    async def keep_bytes(self, owner: UserKey, attachment_id: str, until: int) -> None:
        key, values = upload_key(owner, attachment_id), {":until": until}
        with suppress(ConditionFailed):
            await self._dynamo.update(patterns.KEEP_BYTES, key, _KEEP_BYTES, _IS_KEPT_LESS, values)

    async def of_owner(self, owner: UserKey, limit: int) -> list[str]:
        items = await self._dynamo.query(
            patterns.LIST_UPLOADS,
            "#message_id = :owner",
            {":owner": uploads_of(owner)},
            shown="#reaction",
            limit=limit,
        )
        return [item["reaction"] for item in items]

    async def visit_all(self, owner: UserKey, at: int) -> None:
        after = " "
        while True:
            items = await self._dynamo.query(
                patterns.LIST_UPLOADS,
                "#message_id = :owner AND #reaction > :after",
                {":owner": uploads_of(owner), ":after": after},
                shown="#reaction",
                limit=_PAGE,
            )
            visits = [visit_item(Visit(owner, item["reaction"], at)) for item in items]
            await self._dynamo.batch_write(patterns.KEEP_VISITS, puts=visits)
            if len(items) < _PAGE:
                return
            after = items[-1]["reaction"]

    async def due(self, now: int, limit: int) -> list[Visit]:
        found = await gather_bounded(
            partial(self._due_in, shard, now, limit) for shard in range(VISIT_PARTITIONS)
        )
        return [visit for some in found for visit in some][:limit]

    async def _due_in(self, shard: int, now: int, limit: int) -> list[Visit]:
        items = await self._dynamo.query(
            patterns.LIST_VISITS,
            "#message_id = :visits AND #reaction < :now",
            {":visits": _visits(shard), ":now": f"{now + 1:013d}"},
            limit=limit,
        )
        return [_to_visit(item) for item in items]

    async def visited(self, visit: Visit, next_at: int | None) -> None:
        following = [] if next_at is None else [visit_item(visit._replace(at=next_at))]
        await self._dynamo.batch_write(
            patterns.KEEP_VISITS, puts=following, deletes=[visit_item(visit)]
        )

    async def remove(self, owner: UserKey, attachment_id: str) -> None:
        await self._dynamo.delete(patterns.FORGET_UPLOAD, upload_key(owner, attachment_id))


def plan_attachments(plan: TransactionPlan, index: int, message: Entry) -> None:
    """Plan to give uploads to the message that names them."""
    values: Item = {
        ":chat": message.chat_id,
        ":sequence": message.sequence,
        ":now": message.created_at,
    }
    used = Declined(index, "attachment_used")
    update, condition = _TAKE, f"{_FREE} AND {_IS_UNRESERVED}"
    scheduled_id = scheduled_id_of(message.client_message_id or "")
    if scheduled_id is not None:
        values[":scheduled"] = scheduled_id
        update += " REMOVE #scheduled_id"
        condition = f"{_FREE} AND ({_IS_RESERVED} OR ({_IS_UNRESERVED}))"
    for name in attached_ids(message.files):
        key = upload_key(message.sender, name)
        plan.add(Update("reactions", key, update, condition, values), used)
    if message.expires_at is not None:
        for item in visits_of(message.sender, message.files, message.expires_at):
            plan.add(Put("reactions", item))


def visits_of(sender: UserKey, files: bytes | None, at: int) -> list[Item]:
    """Build the items that let the sweeper visit the files of a message at this time."""
    return [visit_item(Visit(sender, name, at)) for name in attached_ids(files)]


def upload_key(owner: UserKey, attachment_id: str) -> Item:
    """Return the key of an upload."""
    return {"message_id": uploads_of(owner), "reaction": attachment_id}


def uploads_of(owner: UserKey) -> str:
    """Return the partition of a user's uploads, in the table of reactions."""
    return f"a#{owner}"


def visit_item(visit: Visit) -> Item:
    """Build the item of a visit, which is also its key."""
    shard = zlib.crc32(visit.attachment_id.encode()) % VISIT_PARTITIONS
    place = f"{visit.at:013d}#{visit.owner}#{visit.attachment_id}"
    return {"message_id": _visits(shard), "reaction": place}


def upload_item(upload: Upload) -> Item:
    """Convert an upload to its item."""
    fields: Item = {n: v for n, v in msgspec.structs.asdict(upload).items() if v is not None}
    fields["parts"] = _text(upload.parts)
    if upload.thumbnail is not None:
        fields["thumbnail"] = _text(upload.thumbnail)
    return {**fields, **upload_key(upload.owner, upload.attachment_id)}


def to_upload(item: Item) -> Upload:
    """Convert a stored item to an upload."""
    fields: dict[str, Any] = {n: item[n] for n in Upload.__struct_fields__ if n in item}
    fields["parts"] = _parts.decode(fields["parts"])
    if "thumbnail" in fields:
        fields["thumbnail"] = _part.decode(fields["thumbnail"])
    return Upload(**fields)


def _visits(shard: int) -> str:
    return f"v#{shard}"


def _to_visit(item: Item) -> Visit:
    at, owner, attachment_id = item["reaction"].split("#")
    return Visit(UserKey(owner), attachment_id, int(at))


def _text(value: BlobPart | Iterable[BlobPart]) -> str:
    return _encode(value).decode()


_conforms: type[Uploads] = DynamoUploads
