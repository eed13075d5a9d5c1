# SPDX-License-Identifier: Apache-2.0
"""Plans the transaction that appends entries, including the changes of members.

Membership and receipt rows are written in the same transaction as their entry and the chat's item.
The chat's item contains the member count and the eleven members who joined first, which is enough
to show ten others to every member. Each change of members writes its entry's sequence to the chat's
item. The change fails if the item has another sequence by now than the one that was read. Two
concurrent changes therefore never overwrite each other.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from tidings.model import limits
from tidings.model.chats import Chat
from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Way, has_room, surely_has_room, way_into
from tidings.ports.log import Outcome, SlotTaken
from tidings.stores.dynamodb.chat.items import (
    member_item,
    member_key,
    receipt_item,
    receipt_key,
    settings_item,
)
from tidings.stores.dynamodb.chat.pages import load_state
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put, Update, Write
from tidings.stores.dynamodb.patterns import COUNT_CHATS, READ_CHAT

SLOT_TAKEN: Final = SlotTaken()
FIRST_MEMBERS: Final = limits.LISTED_MEMBERS_MAX + 1
MEMBERSHIP_KINDS: Final = frozenset({"created", "added", "removed"})


class TransactionPlan:
    """Collects the writes of one run, which are carried out in one transaction."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._meanings: list[Outcome] = []

    def add(self, write: Write, meaning: Outcome = SLOT_TAKEN) -> None:
        """Add a write; `meaning` is the outcome of the run if the write's condition fails.

        The default means that another writer was first, and the chat has to be read again.
        """
        self.writes.append(write)
        self._meanings.append(meaning)

    def outcome(self, canceled: Canceled) -> Outcome:
        """Return the outcome of a run whose transaction was cancelled.

        If one of several failed writes means a taken slot, the outcome is a taken slot, because it
        can be the cause of the other failures. A conflict also means a taken slot, because another
        transaction is changing the same chat. A transaction that was cancelled although no
        condition failed means the same.
        """
        failed = [
            meaning
            for meaning, reason in zip(self._meanings, canceled.reasons, strict=True)
            if reason.is_condition
        ]
        if not failed or SLOT_TAKEN in failed or any(r.is_conflict for r in canceled.reasons):
            return SLOT_TAKEN
        return failed[0]


class Stale(Exception):
    """The run's slot is taken, because the log has more entries than the writer knew."""


async def plan_people(
    dynamo: Dynamo, plan: TransactionPlan, chat: ChatId, entries: Sequence[Entry]
) -> None:
    """Plan the rows of all users whom the entries add, remove or give another role.

    Raises:
        Stale: The run's slot is already taken.
    """
    for entry in entries:
        match entry.kind:
            case "created" | "added":
                plan_joining(plan, entry)
            case "removed":
                _plan_leaving(plan, entry)
            case "role":
                _plan_roles(plan, entry)
            case _:
                pass
    name = next((entry.name for entry in reversed(entries) if entry.kind == "renamed"), None)
    if any(entry.kind in MEMBERSHIP_KINDS for entry in entries):
        await _plan_chat(dynamo, plan, chat, entries, name)
    elif name is not None:
        plan.add(
            Update(
                "chats", {"chat_id": chat}, "SET #name = :name, #updated_at = :at",
                "attribute_exists(#chat_id)", {":name": name, ":at": entries[-1].created_at},
            )
        )  # fmt: skip
    for entry in entries:
        if entry.kind == "settings":
            await _plan_settings(dynamo, plan, entry)


async def _plan_settings(dynamo: Dynamo, plan: TransactionPlan, entry: Entry) -> None:
    """Plan to record new settings in the chat's item and in the rows of a direct chat's users."""
    assert entry.settings is not None
    facts = await dynamo.get(READ_CHAT, {"chat_id": entry.chat_id})
    if facts is None:
        raise Stale
    values = {f":{name}": value for name, value in settings_item(entry.settings).items()}
    values[":at"] = entry.created_at
    update = "SET #frozen = :frozen, #slow_mode_seconds = :slow_mode_seconds, #updated_at = :at"
    exists = "attribute_exists(#chat_id)"
    plan.add(Update("chats", {"chat_id": entry.chat_id}, update, exists, values))
    if facts["type"] == "direct":
        for user in facts["first_members"]:
            row = receipt_key(user, entry.chat_id)
            plan.add(Update("delivery_state", row, update, exists, values))


def plan_joining(plan: TransactionPlan, entry: Entry, *, is_direct: bool = False) -> None:
    """Plan the rows that make the entry's people members, with receipts that start at the entry.

    These rows replace those of an earlier membership.
    """
    for person in entry.people:
        others = (other.user for other in entry.people if other.user != person.user)
        peer = next(others) if is_direct else None
        plan.add(Put("chat_memberships", member_item(entry, person)))
        plan.add(Put("delivery_state", receipt_item(entry, person.user, peer)))


def _plan_leaving(plan: TransactionPlan, entry: Entry) -> None:
    for person in entry.people:
        plan.add(Delete("chat_memberships", member_key(entry.chat_id, person.user)))
        plan.add(Delete("delivery_state", receipt_key(person.user, entry.chat_id)))


def _plan_roles(plan: TransactionPlan, entry: Entry) -> None:
    for person in entry.people:
        plan.add(
            Update(
                "chat_memberships", member_key(entry.chat_id, person.user), "SET #role = :role",
                "attribute_exists(#chat_id)", {":role": person.role},
            )
        )  # fmt: skip


async def _plan_chat(
    dynamo: Dynamo, plan: TransactionPlan, chat: ChatId, entries: Sequence[Entry], name: str | None
) -> None:
    facts = await dynamo.get(READ_CHAT, {"chat_id": chat})
    if facts is None:
        raise Stale
    count, first = _after(facts["member_count"], facts["first_members"], entries)
    if len(first) < min(count, FIRST_MEMBERS):
        first = await _first_members(dynamo, chat, entries)
    last = entries[-1]
    values = {":count": count, ":first": first, ":now": last.sequence, ":at": last.created_at}
    update = "SET #member_count = :count, #first_members = :first, #as_of = :now, #updated_at = :at"
    if name is not None:
        update, values = f"{update}, #name = :name", {**values, ":name": name}
    values[":read"] = facts["as_of"]
    plan.add(Update("chats", {"chat_id": chat}, update, "#as_of = :read", values))
    if facts["type"] == "direct":
        _plan_being_alone(plan, chat, first, last.created_at)


def _plan_being_alone(
    plan: TransactionPlan, chat: ChatId, users: Iterable[UserKey], at: int
) -> None:
    """Plan to record in the receipt rows of a direct chat that the other user is no longer a
    member."""
    for user in users:
        plan.add(
            Update(
                "delivery_state", receipt_key(user, chat),
                "SET #is_alone = :yes, #updated_at = :at", "attribute_exists(#user_id)",
                {":yes": True, ":at": at},
            )
        )  # fmt: skip


def _after(count: int, first: list[UserKey], entries: Iterable[Entry]) -> tuple[int, list[UserKey]]:
    """Return the member count, and the members who joined first, as they are after these entries.

    If one of the first members leaves, the list may become too short, because it is not known here
    who joined next.
    """
    for entry in entries:
        users = sorted(person.user for person in entry.people)
        if entry.kind in {"created", "added"}:
            is_complete = len(first) == count
            count += len(users)
            if is_complete:
                first = [*first, *users][:FIRST_MEMBERS]
        elif entry.kind == "removed":
            count -= len(users)
            first = [user for user in first if user not in users]
    return count, first


async def _first_members(dynamo: Dynamo, chat: ChatId, entries: Sequence[Entry]) -> list[UserKey]:
    """Return the members who joined first, after these entries, from a read of all members.

    This is necessary only if one of the first members has left.
    """
    state = await load_state(dynamo, chat)
    if state is None or state.head != entries[0].sequence - 1:
        raise Stale
    for entry in entries:
        state.fold(entry)
    members = sorted(state.members.items(), key=lambda member: (member[1].joined, member[0]))
    return [user for user, _ in members[:FIRST_MEMBERS]]


def chat_item(chat: Chat, created: Entry) -> Item:
    """Build the item of a new chat, as it is after the chat's first entry."""
    count, first = _after(0, [], [created])
    item: Item = {
        "chat_id": chat.chat_id,
        "tenant": chat.tenant,
        "type": chat.type,
        "creator": chat.creator,
        "created_at": chat.created_at,
        "updated_at": created.created_at,
        "member_count": count,
        "first_members": first,
        "as_of": created.sequence,
    }
    return item if chat.name is None else {**item, "name": chat.name}


async def have_room(dynamo: Dynamo, entries: Iterable[Entry], *, is_direct: bool = False) -> bool:
    """Return True if all users whom these entries add may be in one more chat.

    Two callers who add the same user at the same moment may both get True, although there is room
    for only one more chat. This is harmless, because the limit only keeps chat lists readable.
    """
    ways = {
        person.user: way_into(person.user, entry.sender, is_direct=is_direct)
        for entry in entries
        for person in entry.people
    }
    return all(
        await gather_bounded(partial(_has_room, dynamo, user, way) for user, way in ways.items())
    )


async def _has_room(dynamo: Dynamo, user: UserKey, way: Way) -> bool:
    total = await dynamo.count(COUNT_CHATS, "#user_id = :user", {":user": user})
    if surely_has_room(total):
        return True
    own = await dynamo.count(
        COUNT_CHATS, "#user_id = :user", {":user": user, ":yes": True}, only="#own = :yes"
    )
    return has_room(way, total, own)
