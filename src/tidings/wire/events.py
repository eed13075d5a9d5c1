# SPDX-License-Identifier: Apache-2.0
"""Events between processes, and their codec.

An entry travels as it is stored: its content sealed, or not at all. Fields that a process does not
know are ignored, so that two versions can run side by side.
"""

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import ChatId


class EntryEvent(msgspec.Struct, tag_field="event", tag="entry", frozen=True):
    """A new durable entry. Once it is old, only its sequence matters."""

    entry: Entry

    @property
    def chat(self) -> ChatId:
        """Return the chat of the entry."""
        return self.entry.chat_id

    @property
    def sequence(self) -> int:
        """Return the sequence of the entry, which the head has reached at least."""
        return self.entry.sequence


class HintEvent(msgspec.Struct, tag_field="event", tag="hint", frozen=True):
    """A lower bound for the head of a chat: the receiver checks that all entries were delivered."""

    chat: ChatId
    sequence: int


class CleanedEvent(msgspec.Struct, tag_field="event", tag="cleaned", frozen=True):
    """Expired messages of a chat were deleted, so unread counts have changed."""

    chat: ChatId
    sequences: tuple[int, ...]


WireEvent = EntryEvent | HintEvent | CleanedEvent

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireEvent).decode


class NotAnEvent(Exception):
    """Bytes that are not a valid event."""


def entry_event(entry: Entry) -> bytes:
    """Encode an entry for the workers, without anything that was decrypted."""
    is_message = entry.kind == "message"
    stored = msgspec.structs.replace(
        entry,
        content=None,
        gone=None,
        shown=None,
        mine=(),
        # An edit has no content of its own: the process that delivers it reads the target.
        box=entry.box if is_message else None,
        box_key=entry.box_key if is_message else 0,
    )
    return _encode(EntryEvent(stored))


def encode_event(event: HintEvent | CleanedEvent) -> bytes:
    """Encode any other event."""
    return _encode(event)


def decode_event(data: bytes) -> WireEvent:
    """Decode an event.

    Raises:
        NotAnEvent: The bytes are not an event, or a field has an impossible value.
    """
    try:
        event: WireEvent = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEvent(str(error)) from None
    if not isinstance(event, CleanedEvent) and event.sequence < 1:
        raise NotAnEvent(f"no entry has the sequence {event.sequence}")
    return event
