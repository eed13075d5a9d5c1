# SPDX-License-Identifier: Apache-2.0
"""Makes restored tables agree with each other: the logs decide.

AWS restores each table on its own. Within the last second before the chosen moment, a table may
have the effect of a request that another table does not have. No process may write meanwhile.
"""

from array import array
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.model.receipt_times import MarkTimes, packed, unpacked
from tidings.model.roles import Member
from tidings.model.scheduled import RESTORED
from tidings.ports.due import due_of
from tidings.ports.export_facts import MemberFact
from tidings.stores.dynamodb import patterns
from tidings.stores.dynamodb.chat import deletion_patterns
from tidings.stores.dynamodb.chat.items import member_key, receipt_key, to_entry
from tidings.stores.dynamodb.chat.members import FIRST_MEMBERS
from tidings.stores.dynamodb.chat.pages import items_after
from tidings.stores.dynamodb.chat.scheduled import DynamoScheduled, is_scheduled, to_scheduled
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item, gather_bounded
from tidings.stores.dynamodb.export.importing import fill_all_heads, fill_lists, link_items
from tidings.stores.dynamodb.export.inspecting import without_member
from tidings.stores.dynamodb.export.items import member_items, to_member_fact
from tidings.stores.dynamodb.export.repair_patterns import (
    RENEW_EPOCH,
    REPAIR_CHAT,
    SCAN_RECEIPTS,
)
from tidings.stores.dynamodb.export.scanning import whole_table
from tidings.stores.dynamodb.formats import EPOCH
from tidings.stores.dynamodb.identity.secrets import EPOCH_BYTES
from tidings.stores.dynamodb.inbox.due import DynamoDueItems, to_due
from tidings.stores.dynamodb.inbox.escalations import drop_overdue
from tidings.stores.dynamodb.inbox.inbox_patterns import SCAN_INBOX
from tidings.stores.dynamodb.inbox.scheduled_notifications import DynamoScheduledNotifications

PAGE_ENTRIES: Final = 200


class Repaired(msgspec.Struct):
    """What a repair has done so far."""

    chats: int = 0
    """Number of chats that were compared with their logs."""
    members: int = 0
    """Number of members whose rows were added or changed."""
    removed: int = 0
    """Number of rows of users who are not members according to the log."""
    restored: int = 0
    """Number of scheduled messages and notifications that are not sent, because they were due
    before the restore."""
    epoch: str = ""


_LATE: Final = ("d#inbox#", "d#escalation#")
"""Prefixes of the partitions with due items of scheduled notifications and of escalations."""


class _LogState(msgspec.Struct):
    """Members and end of a log, and the number of messages up to each entry."""

    members: dict[UserKey, Member]
    numbers: "array[int]"

    @property
    def head(self) -> int:
        return len(self.numbers) - 1


async def repair_tables(dynamo: Dynamo, report: Callable[[Repaired], None], now: int) -> Repaired:
    """Give the tables a new epoch, and make all other tables agree with the logs.

    Scheduled messages that were due before `now` are not sent any more.

    It can be repeated. Logs are not changed.
    """
    done = Repaired(epoch=await _renew_epoch(dynamo))
    only = "attribute_exists(#type) AND attribute_not_exists(#deleted_at)"
    async for page in whole_table(dynamo, patterns.SCAN_CHATS, only):
        await gather_bounded(partial(_repair_chat, dynamo, item, done) for item in page)
        report(done)
    async for page in whole_table(dynamo, SCAN_RECEIPTS):
        lost = await without_member(dynamo, page)
        await _forget(dynamo, lost, done)
        report(done)
    await _mark_restored(dynamo, done, now)
    await fill_lists(dynamo)
    await fill_all_heads(dynamo, done.epoch)
    return done


async def _mark_restored(dynamo: Dynamo, done: Repaired, now: int) -> None:
    """Mark the messages and notifications that were due before the tables were restored."""
    store, items = DynamoScheduled(dynamo), DynamoDueItems(dynamo)
    late = DynamoScheduledNotifications(dynamo)
    async for page in whole_table(dynamo, SCAN_INBOX):
        for message in [to_scheduled(item) for item in page if is_scheduled(item)]:
            if message.is_open and message.send_at <= now:
                await store.finish(message.failed(RESTORED, now))
                await items.drop(due_of(message))
                done.restored += 1
        for due in [to_due(item) for item in page if item["pk"].startswith(_LATE)]:
            if due.at <= now:
                if due.kind == "inbox":
                    await late.mark_restored(due.tenant, due.subject, due.item_id)
                else:
                    await drop_overdue(dynamo, due, now)
                await items.drop(due)
                done.restored += 1


async def _renew_epoch(dynamo: Dynamo) -> str:
    epoch = dynamo.chance.token(EPOCH_BYTES).hex()
    await dynamo.update(RENEW_EPOCH, EPOCH, "SET #value = :epoch", values={":epoch": epoch})
    return epoch


async def _repair_chat(dynamo: Dynamo, item: Item, done: Repaired) -> None:
    chat = ChatId(item["chat_id"])
    rows = await dynamo.query(patterns.LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
    members = {UserKey(row["user_id"]): row for row in rows}
    log = await _read_log(dynamo, chat)
    users = sorted(members.keys() | log.members.keys())
    found = await dynamo.batch_get(
        patterns.EXPORT_RECEIPTS, [receipt_key(user, chat) for user in users]
    )
    receipts = {UserKey(receipt["user_id"]): receipt for receipt in found}
    for user in log.members:
        before = _stored(log.members[user], members.get(user), receipts.get(user))
        after = _as_the_log_says(chat, user, log, before)
        if user not in members or before != after:
            done.members += 1
            membership, marks = member_items(after)
            await dynamo.put(patterns.IMPORT_MEMBER, membership)
            await dynamo.put(patterns.IMPORT_RECEIPT, marks)
    await _forget(dynamo, [(chat, user) for user in users if user not in log.members], done)
    await _repair_item(dynamo, item, log)
    done.chats += 1


def _stored(member: Member, row: Item | None, receipt: Item | None) -> MemberFact | None:
    """Return a member as stored, even if the row is missing; None without a receipt."""
    if receipt is None:
        return None
    row = row or {name: receipt[name] for name in ("chat_id", "user_id")}
    return to_member_fact({**msgspec.structs.asdict(member), **row}, receipt)


async def _read_log(dynamo: Dynamo, chat: ChatId) -> _LogState:
    """Read a log, and write the items again that list its replies, pins and mentions."""
    log = _LogState({}, array("q", [0]))
    while items := (await items_after(dynamo, chat, log.head, PAGE_ENTRIES))[:PAGE_ENTRIES]:
        for entry in map(to_entry, items):
            log.numbers.append(entry.number)
            for pattern, link in link_items(entry):
                await dynamo.put(pattern, link)
            for person in entry.people:
                before = log.members.pop(person.user, None)
                if entry.kind == "role" and before is not None:
                    joined = Member(person.role, before.joined_at, before.joined)
                    log.members[person.user] = joined
                elif entry.kind in ("created", "added"):
                    joined = Member(person.role, entry.created_at, entry.sequence)
                    log.members[person.user] = joined
        if len(items) < PAGE_ENTRIES:
            break
    return log


def _as_the_log_says(
    chat: ChatId, user: UserKey, log: _LogState, before: MemberFact | None
) -> MemberFact:
    """Return a member as the log describes them, with marks that are not beyond the end of the
    log."""
    member = log.members[user]
    start = member.joined
    if before is None:
        before = MemberFact(
            chat_id=chat, user_id=user, role=member.role, joined_at=member.joined_at,
            joined=start, delivered=start, read=start, read_number=log.numbers[start],
        )  # fmt: skip
    read = min(before.read, log.head)
    unread_from = before.unread_from if before.unread_from <= log.head else 0
    return msgspec.structs.replace(
        before,
        role=member.role,
        joined_at=member.joined_at,
        joined=member.joined,
        delivered=min(before.delivered, log.head),
        read=read,
        read_number=log.numbers[read],
        unread_from=unread_from,
        unread_number=log.numbers[unread_from - 1] if unread_from else 0,
        hidden_number=min(before.hidden_number, log.numbers[-1]),
        delivered_times=_up_to(log.head, before.delivered_times),
        read_times=_up_to(log.head, before.read_times),
    )


def _up_to(head: int, times: bytes) -> bytes:
    kept: MarkTimes = [(sequence, at) for sequence, at in unpacked(times) if sequence <= head]
    return packed(kept)


async def _forget(dynamo: Dynamo, gone: list[tuple[ChatId, UserKey]], done: Repaired) -> None:
    done.removed += len(gone)
    await dynamo.batch_write(
        deletion_patterns.FORGET_MEMBERS, deletes=[member_key(*one) for one in gone]
    )
    await dynamo.batch_write(
        deletion_patterns.FORGET_RECEIPTS,
        deletes=[receipt_key(user, chat) for chat, user in gone],
    )


async def _repair_item(dynamo: Dynamo, item: Item, log: _LogState) -> None:
    """Correct the count and the first members in a chat's item."""
    in_order = sorted(log.members, key=lambda user: (log.members[user].joined, user))
    first: list[UserKey] = in_order[:FIRST_MEMBERS]
    as_of = min(item.get("as_of", 0), log.head)
    correct = (len(in_order), first, as_of)
    if (item.get("member_count"), item.get("first_members"), item.get("as_of", 0)) == correct:
        return
    await dynamo.update(
        REPAIR_CHAT,
        {"chat_id": item["chat_id"]},
        "SET #member_count = :count, #first_members = :first, #as_of = :as_of",
        values={":count": len(in_order), ":first": first, ":as_of": as_of},
    )
