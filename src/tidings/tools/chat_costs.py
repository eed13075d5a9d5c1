# SPDX-License-Identifier: Apache-2.0
"""Units that Tidings uses for each use case of chats, by access pattern.

A contract test compares every figure with the units that a real engine reports. The figures are for
a chat that the process has cached, and for one message at a time. A busy chat costs less per
message, because head copies and receipts are written at most once per second.
"""

import math
from typing import Final, NamedTuple

from tidings.model import limits
from tidings.tools.charges import Charge, Units, relaxed_units, strong_units, write_units

MESSAGE_BYTES: Final = 234
"""Size of an entry's item without the text: names, ids and times, and 28 bytes for encryption."""
PACK_BYTES: Final = 130
PACKED_BYTES: Final = 110
"""Size of a message in a pack without the text, and of a pack without its messages."""
DIGEST_BYTES: Final = 22
"""Size of the digest of a message whose idempotency key is not claimed."""
BODY_BYTES: Final = 150
KEY_BYTES: Final = 200
RECEIPT_BYTES: Final = 100
DIRECT_BYTES: Final = 330
"""Size of a receipt row of a direct chat without the text of the copied message."""
MEMBER_BYTES: Final = 105
PREVIEW_TEXT_BYTES_MAX: Final = 240
BATCH_ITEMS_MAX: Final = 100


DIRECT: Final = 2
"""Number of members of a direct chat. In these figures, every chat of two is a direct chat."""


class Cost(NamedTuple):
    """Charges of a use case, before its answer and afterwards, until all its work is done."""

    to_the_answer: list[Charge]
    afterwards: list[Charge] = []  # noqa: RUF012 - never changed

    @property
    def in_all(self) -> list[Charge]:
        """All charges, before and after the answer."""
        return [*self.to_the_answer, *self.afterwards]


def _writes(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(write=units), requests)


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _batches(items: int) -> int:
    """Return the number of batch requests that read this many items by key."""
    return math.ceil(items / BATCH_ITEMS_MAX)


def _head_copy(members: int, *, is_send: bool = False) -> Charge:
    """Return the charge for the head copies: one in the item of a group, or two in a direct chat.

    When a message is sent, the copy in the sender's row is written together with the sender's read
    mark, so this charge has only the other user's copy.
    """
    if members != DIRECT:
        return _writes("advance_head", "chats", 1)
    rows = 1 if is_send else 2
    return _writes("advance_direct_head", "delivery_state", rows, rows)


def _recounts(readers: float, entry_bytes: int) -> list[Charge]:
    """Return the charges for each connected reader's new unread count.

    For each reader, the receipt and the end of the log are read.
    """
    return [
        _reads("read_receipt", "delivery_state", readers, readers),
        _reads("read_log", "messages", readers * strong_units(entry_bytes), readers),
    ]


def send(members: int, content: int, readers: float, *, expires: bool = False) -> Cost:
    """Return the cost of a message that this many connected readers receive and read."""
    entry = MESSAGE_BYTES + (0 if expires else content)
    body = [_writes("put_body", "bodies", write_units(BODY_BYTES + content))] if expires else []
    is_small = members <= limits.SMALL_CHAT_MEMBERS_MAX
    marks = 1 + readers * (2 if is_small else 1)
    return Cost(
        [
            _writes("claim_key", "idempotency_keys", 1),
            *body,
            _writes("claim_slot", "messages", write_units(entry)),
        ],
        [
            _head_copy(members, is_send=True),
            _writes("move_receipt", "delivery_state", marks, marks),
            *(_recounts(readers, entry) if readers else ()),
        ],
    )


def send_at_once(messages: int, content: int, *, has_after: bool) -> Cost:
    """Return the cost of messages of one user that are sent at once and written as one pack.

    The chat is direct, and no reader is connected. With `has_after`, the sends have the field
    `after`, so that no idempotency keys are claimed.
    """
    keys = [] if has_after else [_writes("claim_key", "idempotency_keys", messages, messages)]
    packed = PACKED_BYTES + content + (DIGEST_BYTES if has_after else 0)
    pack = write_units(PACK_BYTES + messages * packed)
    written = [*keys, _writes("claim_slots", "messages", pack)]
    return Cost(
        written, [_head_copy(2, is_send=True), _writes("move_receipt", "delivery_state", 1)]
    )


def send_in_turn(members: int, content: int) -> Cost:
    """Return the cost of a message if another process wrote the previous entry of the chat.

    No reader is connected.
    """
    alone = send(members, content, 0)
    entry = MESSAGE_BYTES + content
    lost = [
        _writes("claim_slot", "messages", 1),
        _reads("read_log", "messages", strong_units(entry)),
    ]
    return Cost([*alone.to_the_answer, *lost], alone.afterwards)


def _look_at_message(members: int, content: int) -> list[Charge]:
    """Return the charges for reading a message twice: for the caller, and before it is changed."""
    entry = strong_units(MESSAGE_BYTES + content)
    return [*message(members, content).to_the_answer, _reads("read_entry", "messages", entry)]


def message(members: int, content: int) -> Cost:
    """Return the cost of reading a message without reactions by its id, in a chat of at most eleven
    members.

    The answer includes the message's status, which depends on all receipts.
    """
    status = [
        _reads("read_message_status", "delivery_state", members / 2),
        _reads("read_message_status", "chat_memberships", 1, 0),
    ]
    found = [
        _reads("read_message", "messages", strong_units(MESSAGE_BYTES + content)),
        _reads("read_message", "chats", 0.5, 0),
    ]
    return Cost([*found, *status])


def _about_chat(members: int) -> list[Charge]:
    """Return the charges for the data about the chat that every page includes.

    A page of a large chat includes no receipts.
    """
    is_small = members <= limits.SMALL_CHAT_MEMBERS_MAX
    receipts = [_reads("show_receipts", "delivery_state", members / 2)] if is_small else []
    return [
        _reads("show_chat", "chats", 0.5),
        *receipts,
        _reads("check_member", "chat_memberships", 1),
    ]


def edit(members: int, content: int) -> Cost:
    """Return the cost of replacing a message's content with content of the same size."""
    changed = [_change_of_message(content), _touched_previews(members)]
    return Cost([*_look_at_message(members, content), *changed], [_head_copy(members)])


def _change_of_message(content: int) -> Charge:
    target = 2 * write_units(MESSAGE_BYTES + content)
    return _writes("change_chat", "messages", 2 + target)


def _touched_previews(members: int) -> Charge:
    """Return the charge for removing the preview of a message before its content is changed."""
    if members != DIRECT:
        return _writes("touch_preview", "chats", 1)
    return _writes("touch_direct_preview", "delivery_state", 2, 2)


def redact(members: int, content: int) -> Cost:
    """Return the cost of redacting a message that has no reactions."""
    cost = edit(members, content)
    return Cost(cost.to_the_answer, [*cost.afterwards, _reads("read_reactions", "reactions", 1)])


def react(members: int, content: int) -> Cost:
    """Return the cost of adding an emoji to a message."""
    row = _writes("change_chat", "reactions", 2, 0)
    changed = [_change_of_message(content), row]
    return Cost([*_look_at_message(members, content), *changed], [_head_copy(members)])


def change_members(*, joins: bool) -> Cost:
    """Return the cost of adding or removing a member.

    Both write the entry, the membership with its index, the receipt and the chat's item. A new
    member is assumed to be a stranger to the caller. This adds the lookup and the count of
    strangers, and a read of the tenant's settings, which may require an invitation. When a member
    leaves, a pending invitation is looked up.
    """
    changed = [
        _writes("change_chat", "messages", 2),
        _writes("change_chat", "chat_memberships", 4, 0),
        _writes("change_chat", "delivery_state", 2, 0),
        _writes("change_chat", "chats", 2, 0),
        _reads("read_chat", "chats", 1),
    ]
    if joins:
        changed += [
            _reads("count_chats", "delivery_state", 0.5),
            _reads("find_users", "users", 1),
            _reads("show_pairs", "chats", 0.5),
            _reads("read_settings", "inbox", 1),
            _writes("add_up", "sessions", 1),
        ]
    else:
        changed.append(_reads("read_invite", "idempotency_keys", 1))
    return Cost(changed, [_head_copy(10)])


def change_settings() -> Cost:
    """Return the cost of changing the settings of a group: the entry and the chat's item."""
    changed = [
        _writes("change_chat", "messages", 2),
        _writes("change_chat", "chats", 2, 0),
        _reads("read_chat", "chats", 1),
    ]
    return Cost(changed, [_head_copy(10)])


def delete_chat(members: int, messages: int) -> Cost:
    """Return the cost of deleting a group with fewer than 25 members and messages.

    At that size each kind of item is deleted in one step. Before the answer, the entry, the chat
    and the deletion job (two items) are written, and the ledger of erasures (two items). After it,
    each step of the job is looked up, leased and recorded.
    """
    steps, entries = 3, messages + 1
    end = [
        _reads("list_members", "chat_memberships", 1),
        _writes("delete_chat", "messages", 2),
        _writes("delete_chat", "chats", 2, 0),
        _writes("delete_chat", "tenants", 4, 0),
        _reads("find_deletion", "tenants", 1),
        _reads("read_log", "messages", 1),
        _writes("record_erasure", "keys", 1),
        _writes("note_erasure", "tenants", 1),
    ]
    rest = [
        _reads("list_deletions", "tenants", steps, steps),
        _writes("move_deletion", "tenants", 2 * steps, 2 * steps),
        _writes("finish_deletion", "tenants", 1),
        _reads("list_members", "chat_memberships", 1),
        _writes("forget_receipts", "delivery_state", members),
        _writes("forget_members", "chat_memberships", 2 * members),
        _writes("forget_chat", "chats", 1),
        _writes("unlist_chat", "listings", 1),
        _reads("list_claims", "idempotency_keys", 1),
        _writes("forget_claims", "idempotency_keys", messages),
        _reads("read_changed_segments", "idempotency_keys", 1),
        _reads("read_log", "messages", 1),
        _writes("empty_entry", "messages", entries, entries),
    ]
    return Cost(end, [_head_copy(members), *rest])


def mark_read() -> Cost:
    """Return the cost of marking everything as read over REST.

    The new unread count is then 0, and only the head is read for it.
    """
    return Cost([_reads("read_log", "messages", 1), _writes("move_receipt", "delivery_state", 1)])


def mark_unread() -> Cost:
    """Return the cost of marking a chat as unread, and of the unread count in the answer."""
    return Cost(
        [
            _reads("check_member", "chat_memberships", 1),
            _reads("read_log", "messages", 2, 2),
            _reads("read_entries", "messages", 1),
            _writes("mark_chat", "delivery_state", 1),
            _reads("read_receipt", "delivery_state", 1),
            _reads("count_unread", "messages", 1),
        ]
    )


def hide_chat() -> Cost:
    """Return the cost of hiding a chat."""
    return Cost(
        [_reads("read_log", "messages", 1), _writes("mark_chat", "delivery_state", 1)],
    )


def message_receipts(members: int, content: int) -> Cost:
    """Return the cost of listing who read a message in a small chat."""
    return Cost(
        [
            *message(members, content).to_the_answer,
            _reads("list_members", "chat_memberships", strong_units(members * MEMBER_BYTES)),
            _reads("show_receipts", "delivery_state", members / 2),
            _reads("check_member", "chat_memberships", 1),
        ]
    )


def unread_total(direct: int, content: int) -> Cost:
    """Return the cost of the unread total of a user who has read everything, without inboxes."""
    inboxes = _reads("list_inboxes", "inbox", 1)
    return Cost([*hello(direct, 0, 0, content).to_the_answer, inboxes])


def history(members: int, count: int, content: int) -> Cost:
    """Return the cost of a page with the newest messages of a chat."""
    entries = _reads("read_log", "messages", strong_units(count * (MESSAGE_BYTES + content)))
    return Cost([entries, *_about_chat(members)])


def _rows_bytes(direct: int, groups: int, content: int) -> int:
    """Return the size of all rows of a user with this many chats."""
    preview = content if content <= PREVIEW_TEXT_BYTES_MAX else 0
    return direct * (DIRECT_BYTES + preview) + groups * RECEIPT_BYTES


def chat_list(direct: int, groups: int, content: int) -> Cost:
    """Return the cost of a page with all chats of a user who has read everything.

    Last messages that are too long for a copy in the user's row are read from the log.
    """
    rows = _reads(
        "list_chats", "delivery_state", strong_units(_rows_bytes(direct, groups, content))
    )
    members = relaxed_units((direct + groups) * MEMBER_BYTES)
    long = direct + groups if content > PREVIEW_TEXT_BYTES_MAX else 0
    return Cost(
        [
            rows,
            *([_reads("show_chats", "chats", groups / 2, _batches(groups))] if groups else ()),
            _reads("list_roles", "chat_memberships", members),
            *([_reads("show_last", "messages", long, _batches(long))] if long else ()),
        ]
    )


def hello(direct: int, groups: int, peers: int, content: int) -> Cost:
    """Return the cost of a hello from a device that missed nothing.

    The presence of the user's peers is sent after the answer.
    """
    rows = _rows_bytes(direct, groups, content)
    heads = [_reads("read_heads", "chats", groups, _batches(groups))] if groups else []
    members = [_reads("show_chats", "chats", groups / 2, _batches(groups))] if groups else []
    return Cost(
        [_reads("list_chats", "delivery_state", strong_units(rows)), *heads],
        [
            _reads("list_shared_chats", "delivery_state", relaxed_units(rows)),
            *members,
            _reads("show_users", "users", (peers + 1) / 2, _batches(peers + 1)),
        ],
    )


def reconnect(direct: int, groups: int, peers: int, missed: int, content: int) -> Cost:
    """Return the cost of a hello from a device that missed this many messages of a direct chat."""
    entry = MESSAGE_BYTES + content
    pages, rest = divmod(missed, limits.PAGE_MAX)
    full = pages * (strong_units(limits.PAGE_MAX * entry) + strong_units(entry))
    part = strong_units(rest * entry) if rest else 0
    reads = pages + bool(rest)
    entries = _reads("read_log", "messages", full + part, 2 * pages + bool(rest))
    cost = hello(direct, groups, peers, content)
    return Cost([*cost.to_the_answer, entries, *_about_chat(DIRECT) * reads], cost.afterwards)
