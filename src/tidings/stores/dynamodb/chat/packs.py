# SPDX-License-Identifier: Apache-2.0
"""Stores several messages of a log in one item, a pack, because one write unit covers a kilobyte.

A pack has the sequence of its first message, so a writer with an outdated head cannot claim this
slot. Its other messages have the next sequences and message numbers. All of them have the same
`mark`, the random text by which a writer recognises its own entries.

Readers get the messages of a pack as if each had its own item. Such an item has the attribute
`IN_PACK`, which is not stored.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import ChatId, UserKey
from tidings.model.limits import KIB
from tidings.stores.dynamodb.chat.items import PLAIN_TEXT, entry_key
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.client.writes import Update

PACK: Final = "pack"
IN_PACK: Final = "in_pack"
PACK_MESSAGES_MAX: Final = 16
"""Maximum number of messages in a pack. A longer pack would not be cheaper per message, and each
change of one message rewrites the whole pack. The largest possible pack, in which all messages have
4 KB and 20 reactions, has less than 100 KB."""
PACK_BYTES_MAX: Final = 16 * KIB
"""Maximum size of the content of a new pack; edits may enlarge it."""


class PackPlace(NamedTuple):
    """Where a message is stored: sequence of the pack, index in the pack, and the stored bytes."""

    first: int
    at: int
    stored: bytes


class _Packed(msgspec.Struct, array_like=True):
    """A message in a pack. New fields may be added at the end."""

    sender: UserKey
    client_message_id: str | None
    later: int = 0
    """Milliseconds after the time of the pack, which is the time of its first message."""
    box: bytes | None = None
    box_key: int = 0
    content_type: str | None = None
    """None for plain text."""
    digest: bytes | None = None
    edited_at: int | None = None
    redacted: bool = False
    reactions: dict[str, int] | None = None
    reply_count: int = 0
    pinned: int = 0


_IF_ANY: Final = (
    "client_message_id", "box", "box_key", "content_type", "digest", "edited_at", "redacted",
    "reactions", "reply_count", "pinned",
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def fits(run: Sequence[Entry], entry: Entry) -> bool:
    """Return True if a message may be packed with the messages of a run.

    An expiring message cannot be packed, because its content is a separate item.
    """
    if len(run) >= PACK_MESSAGES_MAX or entry.expires_at is not None:
        return False
    if run[0].expires_at is not None:
        return False
    return sum(len(one.box or b"") for one in (*run, entry)) <= PACK_BYTES_MAX


def is_pack(entries: Sequence[Entry]) -> bool:
    """Return True if the entries of a run can be written as a pack: they are several messages that
    do not expire and have no options, and small enough."""
    return (
        1 < len(entries) <= PACK_MESSAGES_MAX
        and all(
            entry.kind == "message" and entry.expires_at is None and not entry.has_options
            for entry in entries
        )
        and sum(len(entry.box or b"") for entry in entries) <= PACK_BYTES_MAX
    )


def pack_item(entries: Sequence[Entry]) -> Item:
    """Build the item of a pack."""
    first = entries[0]
    return {
        **entry_key(first.chat_id, first.sequence),
        "kind": PACK,
        "created_at": first.created_at,
        "number": first.number,
        "mark": first.mark,
        "packed": [_encode(_to_packed(entry, first.created_at)) for entry in entries],
    }


def _to_packed(entry: Entry, began_at: int) -> _Packed:
    return _Packed(
        sender=entry.sender,
        client_message_id=entry.client_message_id,
        later=entry.created_at - began_at,
        box=entry.box,
        box_key=entry.box_key,
        content_type=None if entry.content_type == PLAIN_TEXT else entry.content_type,
        digest=entry.digest,
    )


def unpacked(items: Iterable[Item], *, backwards: bool = False) -> list[Item]:
    """Return one item for each entry in these items, of which some may be packs.

    The order stays the same: ascending or, with `backwards`, descending.
    """
    found: list[Item] = []
    for item in items:
        if item["kind"] != PACK:
            found.append(item)
        else:
            found += reversed(_messages(item)) if backwards else _messages(item)
    return found


def _messages(pack: Item) -> list[Item]:
    first, stored = pack["sequence"], pack["packed"]
    common = {
        "chat_id": pack["chat_id"],
        "kind": "message",
        "mark": pack["mark"],
    }
    return [
        {
            **common,
            **_to_item(packed, pack["created_at"]),
            "sequence": first + index,
            "number": pack["number"] + index,
            IN_PACK: PackPlace(first, index, packed),
        }
        for index, packed in enumerate(stored)
    ]


def _to_item(stored: bytes, began_at: int) -> Item:
    """Convert a message of a pack to attributes; empty attributes are left out, as in other
    items."""
    packed = _decode(stored)
    item: Item = {"sender": packed.sender, "created_at": began_at + packed.later}
    for name in _IF_ANY:
        if value := getattr(packed, name):
            item[name] = value
    return item


def unread_in(pack: Item, reader: UserKey, read: int, last: int) -> list[tuple[UserKey, int]]:
    """For each unread message in a pack, return its author and the generation of its data key.

    A message is unread if its sequence is after the read mark `read` and not after `last`, if it is
    from another user, and if it is not redacted. This is the rule of `counts_as_unread`.
    """
    first: int = pack["sequence"]
    messages = map(_decode, pack["packed"][max(0, read + 1 - first) : last + 1 - first])
    return [
        (one.sender, one.box_key) for one in messages if one.sender != reader and not one.redacted
    ]


def change_in_pack(chat: ChatId, item: Item, **changes: Any) -> Update:  # noqa: ANN401
    """Return the write that changes a message in its pack, unless it was changed meanwhile."""
    place: PackPlace = item[IN_PACK]
    new = msgspec.structs.replace(_decode(place.stored), **changes)
    message = f"#packed[{place.at}]"
    return Update(
        "messages",
        entry_key(chat, place.first),
        f"SET {message} = :new",
        f"{message} = :old",
        {":new": _encode(new), ":old": place.stored},
    )


def emptied_pack(messages: Sequence[Item], nobody: UserKey) -> list[bytes]:
    """Return the messages of a pack without content and senders, for a deleted chat.

    The new sender of each message is `nobody`.
    """
    began_at = messages[0]["created_at"]
    return [
        _encode(_Packed(nobody, None, one["created_at"] - began_at, redacted=True))
        for one in messages
    ]
