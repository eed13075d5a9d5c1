# SPDX-License-Identifier: Apache-2.0
"""What processes write to each other through Redis, and its codec."""

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.cluster import EncodedEntry


class Entries(msgspec.Struct, tag="entries", frozen=True):
    """To a gateway: entries of one chat, and whom they are for."""

    request: int
    reply_to: str
    """The channel that waits for the answer."""
    encoded_entries: tuple[EncodedEntry, ...]
    users: tuple[UserKey, ...]


class HandedOver(msgspec.Struct, tag="held", frozen=True):
    """A gateway's answer: which of its connections got them."""

    request: int
    gateway: str
    connections: frozenset[str]


class Notice(msgspec.Struct, tag="notice", frozen=True):
    """To a gateway: a frame without a sequence."""

    frame: bytes
    users: tuple[UserKey, ...]
    chat: ChatId | None = None


class Compare(msgspec.Struct, tag="compare", frozen=True):
    """To all gateways: somebody could not reach you for a while."""


class Hint(msgspec.Struct, tag="hint", frozen=True):
    """To a gateway, or to all but one: something happened to an inbox."""

    event: InboxEvent
    but_not: str
    """The gateway that knows already."""


HandoverMessage = Entries | HandedOver | Notice | Compare | Hint

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HandoverMessage).decode


class NotAHandoverMessage(Exception):
    """These bytes make no sense."""


def decode(data: bytes) -> HandoverMessage:
    """A letter as it came.

    Raises:
        NotALetter: It is none, or one of a newer kind.
    """
    try:
        message: HandoverMessage = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAHandoverMessage(str(error)) from None
    return message
