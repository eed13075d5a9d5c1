# SPDX-License-Identifier: Apache-2.0
"""Convert the stored data of a person to the records of an export, one JSON object each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tidings.model import limits
from tidings.model.blocks import Block
from tidings.model.chats import ChatRow
from tidings.model.entries import Entry
from tidings.model.ids import rfc3339, user_id
from tidings.model.inbox_reading import InboxItem
from tidings.model.notifications import Text
from tidings.model.preferences import Preferences
from tidings.model.push import PushRegistration
from tidings.model.scheduled import Scheduled
from tidings.ports.audit import Act, AuditEntry
from tidings.ports.people import User
from tidings.ports.sessions import Session
from tidings.wire.inbox_records import notification_record
from tidings.wire.records import entry_fields

Record = dict[str, Any]
"""A record. Its `kind` names the type of the data."""


def parts_of(records: Iterable[Record]) -> Iterator[str]:
    """Join records, one per line, into texts that are small enough for one item each."""
    some: list[str] = []
    size = 0
    for record in records:
        text = msgspec.json.encode(record).decode()
        if some and size + len(text) > limits.EXPORT_PART_CHARS_MAX:
            yield "\n".join(some)
            some, size = [], 0
        some.append(text)
        size += len(text) + 1
    if some:
        yield "\n".join(some)


def numbers_of(records: Iterable[Record]) -> dict[str, int]:
    """Return how many records of each kind there are."""
    return Counter(record["kind"] for record in records)


def profile_record(user: User) -> Record:
    """Return the record of a user, with all stored fields."""
    fields = msgspec.to_builtins(user)
    return {"kind": "profile", "user_id": user_id(user.user), **_timed(fields, leave=("user",))}


def session_record(session: Session) -> Record:
    """Return the record of a session, without its secrets."""
    return {
        "kind": "session",
        "session_id": session.session_id,
        "device": session.device,
        "created_at": rfc3339(session.created_at),
        "last_used_at": rfc3339(session.rotated_at),
        "expires_at": rfc3339(session.expires_at),
    }


def block_record(block: Block) -> Record:
    """Return the record of a block by the user."""
    return {
        "kind": "block",
        "user_id": user_id(block.blocked),
        "created_at": rfc3339(block.created_at),
    }


def push_record(device: PushRegistration) -> Record:
    """Return the record of a device that is registered for push, without its target."""
    return {
        "kind": "push_device",
        "device": device.device,
        "provider": device.provider,
        "app": device.app,
        "created_at": rfc3339(device.created_at),
    }


def membership_record(row: ChatRow) -> Record:
    """Return the record of a membership, which for a direct chat also names the other user."""
    record = {
        "kind": "membership",
        "chat": row.chat_id,
        "type": row.type,
        "name": row.name,
        "role": row.role,
        "created_at": rfc3339(row.created_at),
    }
    return record | (
        {"with": user_id(row.others[0])} if row.type == "direct" and row.others else {}
    )


def message_record(entry: Entry) -> Record:
    """Return the record of a message, without the reactions of others."""
    fields = entry_fields(entry)
    fields.pop("reactions", None)
    return fields


def scheduled_record(message: Scheduled, content: str | None) -> Record:
    """Return the record of a scheduled message."""
    leave = ("user_id", "box", "box_key", "digest")
    fields = _timed(msgspec.to_builtins(message), leave=leave)
    return {"kind": "scheduled", **fields, "content": content}


def preferences_record(inbox: str, chosen: Preferences) -> Record:
    """Return the record of what the user has chosen in an inbox."""
    return {"kind": "preferences", "inbox": inbox, **msgspec.to_builtins(chosen)}


def inbox_notification_record(inbox: str, received: InboxItem, text: Text) -> Record:
    """Return the record of a notification. It does not say how many others it hides in lists,
    because these have records of their own."""
    fields = msgspec.structs.asdict(notification_record(received, text))
    del fields["collapsed"]
    return {"kind": "notification", "inbox": inbox, **fields}


def act_records(entries: Iterable[AuditEntry], user: str) -> Iterator[Record]:
    """Yield the records of the administrative acts that concern the user."""
    for entry in entries:
        for act in entry.acts:
            if act.target is not None and user in act.target.split("/"):
                yield _act_record(entry, act)


def _act_record(entry: AuditEntry, act: Act) -> Record:
    return {
        "kind": "audit",
        "at": rfc3339(act.at),
        "action": entry.action,
        "actor": entry.actor,
        "target": act.target,
        "fields": list(entry.fields),
        "outcome": entry.outcome or "unknown",
    }


def _timed(fields: Record, leave: Sequence[str]) -> Record:
    """Return the fields that are not in `leave`, with each time converted to text."""
    return {
        name: rfc3339(value) if name.endswith("_at") and isinstance(value, int) else value
        for name, value in fields.items()
        if name not in leave
    }
