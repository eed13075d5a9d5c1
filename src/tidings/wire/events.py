# SPDX-License-Identifier: Apache-2.0
"""Events between processes, and their codec.

An entry travels as it is stored: its content sealed, or not at all. Fields that a process does not
know are ignored, so that two versions can run side by side.
"""

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import ChatId


class EntryEvent(msgspec.Struct, tag_field="event", tag="entry", frozen=True):
    """An entry became durable. Once it is old, only its place counts."""

    entry: Entry

    @property
    def chat(self) -> ChatId:
        """The chat it is about."""
        return self.entry.chat_id

    @property
    def sequence(self) -> int:
        """How far the log reaches, at least."""
        return self.entry.sequence


class HintEvent(msgspec.Struct, tag_field="event", tag="hint", frozen=True):
    """The log of a chat reaches at least this far: look whether all of it was delivered."""

    chat: ChatId
    sequence: int


class CleanedEvent(msgspec.Struct, tag_field="event", tag="cleaned", frozen=True):
    """Messages of the chat have expired and are deleted: counts of unread have changed."""

    chat: ChatId
    sequences: tuple[int, ...]


WireEvent = EntryEvent | HintEvent | CleanedEvent

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireEvent).decode


class NotAnEvent(Exception):
    """These bytes make no sense."""


def entry_event(entry: Entry) -> bytes:
    """An entry on its way to the workers: nothing that was opened goes with it."""
    is_message = entry.kind == "message"
    stored = msgspec.structs.replace(
        entry,
        content=None,
        gone=None,
        shown=None,
        mine=(),
        # An edit has no content of its own: whoever delivers it reads the target.
        box=entry.box if is_message else None,
        box_key=entry.box_key if is_message else 0,
    )
    return _encode(EntryEvent(stored))


def encode_event(event: HintEvent | CleanedEvent) -> bytes:
    """Any other event."""
    return _encode(event)


def decode_event(data: bytes) -> WireEvent:
    """An event as it came.

    Raises:
        NotAnEvent: It is none, or says what cannot be.
    """
    try:
        event: WireEvent = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnEvent(str(error)) from None
    if not isinstance(event, CleanedEvent) and event.sequence < 1:
        raise NotAnEvent(f"no entry has the sequence {event.sequence}")
    return event
