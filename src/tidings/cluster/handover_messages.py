# SPDX-License-Identifier: Apache-2.0
"""Messages that processes send each other through Redis, and their encoding."""

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.cluster import EncodedEntry


class Entries(msgspec.Struct, tag="entries", frozen=True):
    """To a gateway: entries of one chat for some users."""

    request: int
    reply_to: str
    """Channel for the answer."""
    encoded_entries: tuple[EncodedEntry, ...]
    users: tuple[UserKey, ...]


class HandedOver(msgspec.Struct, tag="held", frozen=True):
    """Answer of a gateway: the connections that got the entries."""

    request: int
    gateway: str
    connections: frozenset[str]


class Notice(msgspec.Struct, tag="notice", frozen=True):
    """To a gateway: a frame without a sequence."""

    frame: bytes
    users: tuple[UserKey, ...]
    chat: ChatId | None = None


class Compare(msgspec.Struct, tag="compare", frozen=True):
    """To all gateways: compare heads, because a sender could not reach you for a while."""


class Hint(msgspec.Struct, tag="hint", frozen=True):
    """To a gateway, or to all but one: something happened to an inbox."""

    event: InboxEvent
    but_not: str
    """Gateway that knows already."""


HandoverMessage = Entries | HandedOver | Notice | Compare | Hint

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HandoverMessage).decode


class NotAHandoverMessage(Exception):
    """The bytes are not a handover message."""


def decode(data: bytes) -> HandoverMessage:
    """Decode a message from a channel.

    Raises:
        NotAHandoverMessage: The bytes are not a message, or a message of a newer version.
    """
    try:
        message: HandoverMessage = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAHandoverMessage(str(error)) from None
    return message
