# SPDX-License-Identifier: Apache-2.0
"""Plans changes of a message: edits, redactions, reactions, replies and pins, with their entries.

The message, called the target, is first read with a strong read. It is changed on condition that it
is still as it was read. If the condition fails although the slot was free, another transaction was
changing the target during the read, and the run is repeated.
"""

from typing import Final

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.ports.log import Declined
from tidings.stores.dynamodb.chat.items import BODY, body_key, entry_key, reaction_key
from tidings.stores.dynamodb.chat.link_patterns import READ_PINS
from tidings.stores.dynamodb.chat.links import pin_key, pins_of, reply_item
from tidings.stores.dynamodb.chat.members import TransactionPlan
from tidings.stores.dynamodb.chat.packs import IN_PACK, change_in_pack
from tidings.stores.dynamodb.chat.pages import item_at
from tidings.stores.dynamodb.chat.uploads import visits_of
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Delete, Put, Update
from tidings.stores.dynamodb.patterns import READ_OWN_REACTIONS

TARGET_KINDS: Final = frozenset(
    {"edited", "redacted", "reacted", "unreacted", "pinned", "unpinned"}
)

_BEFORE: Final = ":before"
_CONTENT: Final = f"#box, #box_key, #files, #reactions, #digest, #mentions, #{BODY}"
_IS_LIVE: Final = "attribute_exists(#chat_id) AND attribute_not_exists(#redacted)"


async def plan_target(
    dynamo: Dynamo, plan: TransactionPlan, index: int, entry: Entry
) -> Declined | None:
    """Plan the change of the entry's target, or return the reason for declining the entry."""
    assert entry.target is not None
    target = await item_at(dynamo, entry.chat_id, entry.target)
    if entry.kind in {"reacted", "unreacted"}:
        return await _plan_reaction(dynamo, plan, index, entry, target)
    if entry.kind in {"pinned", "unpinned"}:
        return await _plan_pin(dynamo, plan, index, entry, target)
    if target is None or not _has_content(target, entry.created_at):
        return Declined(index, "target_gone")
    if entry.kind == "edited":
        _plan_edit(plan, entry, target)
    else:
        _plan_redaction(plan, entry, target)
    return None


async def _plan_pin(
    dynamo: Dynamo, plan: TransactionPlan, index: int, entry: Entry, target: Item | None
) -> Declined | None:
    """Plan to pin or unpin a message. A pinned message whose content is gone can be unpinned."""
    chat, is_new = entry.chat_id, entry.kind == "pinned"
    before = 0 if target is None else target.get("pinned", 0)
    if (before > 0) == is_new:
        return Declined(index, "no_change")
    if target is None or (is_new and not _has_content(target, entry.created_at)):
        return Declined(index, "target_gone")
    if not is_new:
        plan.add(Delete("reactions", pin_key(chat, before)))
        _plan_pinned(plan, entry, target, 0, f"#pinned = {_BEFORE}", {_BEFORE: before})
        return None
    pins = await dynamo.query(
        READ_PINS, "#message_id = :pins", {":pins": pins_of(chat)}, limit=limits.PINS_MAX
    )
    if len(pins) >= limits.PINS_MAX:
        return Declined(index, "too_many_pins")
    plan.add(Put("reactions", {**pin_key(chat, entry.sequence), "target": entry.target}))
    free = f"{_IS_LIVE} AND attribute_not_exists(#pinned)"
    _plan_pinned(plan, entry, target, entry.sequence, free, {})
    return None


def _plan_pinned(
    plan: TransactionPlan, entry: Entry, target: Item, pinned: int, condition: str, values: Item
) -> None:
    if IN_PACK in target:
        plan.add(change_in_pack(entry.chat_id, target, pinned=pinned))
        return
    update = "SET #pinned = :pinned" if pinned else "REMOVE #pinned"
    values = {**values, ":pinned": pinned} if pinned else values
    key = entry_key(entry.chat_id, target["sequence"])
    plan.add(Update("messages", key, update, condition, values))


async def plan_reply(
    dynamo: Dynamo, plan: TransactionPlan, index: int, entry: Entry
) -> Declined | None:
    """Plan to count and list a reply, or return the reason for declining it."""
    assert entry.reply_to is not None
    target = await item_at(dynamo, entry.chat_id, entry.reply_to)
    if target is None or not _has_content(target, entry.created_at):
        return Declined(index, "target_gone")
    before = target.get("reply_count", 0)
    if before < limits.REPLY_COUNT_MAX:
        _plan_reply_count(plan, entry, target, before)
    plan.add(Put("reactions", reply_item(entry)))
    return None


def _plan_reply_count(plan: TransactionPlan, entry: Entry, target: Item, before: int) -> None:
    if IN_PACK in target:
        plan.add(change_in_pack(entry.chat_id, target, reply_count=before + 1))
        return
    values: Item = {":count": before + 1}
    condition = f"{_IS_LIVE} AND attribute_not_exists(#reply_count)"
    if "reply_count" in target:
        condition = f"{_IS_LIVE} AND #reply_count = {_BEFORE}"
        values[_BEFORE] = before
    key = entry_key(entry.chat_id, target["sequence"])
    plan.add(Update("messages", key, "SET #reply_count = :count", condition, values))


def _has_content(target: Item, now: int) -> bool:
    return (
        target["kind"] == "message"
        and "redacted" not in target
        and ("expires_at" not in target or target["expires_at"] > now)
    )


def _plan_edit(plan: TransactionPlan, entry: Entry, target: Item) -> None:
    key = entry_key(entry.chat_id, target["sequence"])
    content = {":box": entry.box, ":box_key": entry.box_key}
    at = {":now": entry.created_at}
    if IN_PACK in target:
        new = {"box": entry.box, "box_key": entry.box_key, "edited_at": entry.created_at}
        plan.add(change_in_pack(entry.chat_id, target, **new))
        return
    if BODY not in target:
        update = "SET #edited_at = :now, #box = :box, #box_key = :box_key"
        plan.add(Update("messages", key, update, _IS_LIVE, {**at, **content}))
        return
    at[":box_key"] = entry.box_key
    update = "SET #edited_at = :now, #box_key = :box_key"
    plan.add(Update("messages", key, update, _IS_LIVE, at))
    # If the body is missing, it has expired, and the repeated run finds the target expired.
    body = body_key(entry.chat_id, target[BODY])
    update = "SET #box = :box, #box_key = :box_key"
    plan.add(Update("bodies", body, update, "attribute_exists(#chat_id)", content))


def _plan_redaction(plan: TransactionPlan, entry: Entry, target: Item) -> None:
    """Plan to remove the content and the reaction counts; the reactions are deleted later."""
    if IN_PACK in target:
        gone = {"box": None, "box_key": 0, "reactions": None, "digest": None}
        plan.add(change_in_pack(entry.chat_id, target, redacted=True, **gone))
        return
    update = f"SET #redacted = :yes REMOVE {_CONTENT}"
    key = entry_key(entry.chat_id, target["sequence"])
    plan.add(Update("messages", key, update, _IS_LIVE, {":yes": True}))
    for item in visits_of(target["sender"], target.get("files"), entry.created_at):
        plan.add(Put("reactions", item))
    if BODY in target:
        plan.add(Delete("bodies", body_key(entry.chat_id, target[BODY])))


async def _plan_reaction(
    dynamo: Dynamo, plan: TransactionPlan, index: int, entry: Entry, target: Item | None
) -> Declined | None:
    assert entry.emoji is not None
    assert entry.target is not None
    row = reaction_key(entry.chat_id, entry.target, entry.emoji, entry.sender)
    is_new = entry.kind == "reacted"
    no_change = Declined(index, "no_change")
    if target is None or not _has_content(target, entry.created_at):
        is_there = (
            target is not None
            and "redacted" not in target
            and bool(await dynamo.batch_get(READ_OWN_REACTIONS, [row]))
        )
        return no_change if is_there == is_new else Declined(index, "target_gone")
    before: dict[str, int] = target.get("reactions", {})
    if not is_new and entry.emoji not in before:
        return no_change
    if is_new and len({*before, entry.emoji}) > limits.REACTION_EMOJI_MAX:
        return Declined(index, "too_many_emoji")
    counts = {**before, entry.emoji: before.get(entry.emoji, 0) + (1 if is_new else -1)}
    if is_new:
        reaction = {**row, "created_at": entry.created_at}
        plan.add(Put("reactions", reaction, "attribute_not_exists(#reaction)"), no_change)
    else:
        plan.add(Delete("reactions", row, "attribute_exists(#reaction)"), no_change)
    _plan_counts(plan, entry, target, {emoji: n for emoji, n in counts.items() if n > 0})
    return None


def _plan_counts(plan: TransactionPlan, entry: Entry, target: Item, counts: dict[str, int]) -> None:
    if IN_PACK in target:
        plan.add(change_in_pack(entry.chat_id, target, reactions=counts or None))
        return
    values: Item = {}
    condition = f"{_IS_LIVE} AND attribute_not_exists(#reactions)"
    if "reactions" in target:
        condition = f"{_IS_LIVE} AND #reactions = :before"
        values[":before"] = target["reactions"]
    update = "REMOVE #reactions"
    if counts:
        update, values[":after"] = "SET #reactions = :after", counts
    key = entry_key(entry.chat_id, target["sequence"])
    plan.add(Update("messages", key, update, condition, values))
