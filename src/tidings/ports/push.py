# SPDX-License-Identifier: Apache-2.0
"""Telling users who have no connection that something waits for them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey


class PushNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A new message in a chat, for those of its members who are not connected.

    It names the message and says nothing of its content.
    """

    chat_id: ChatId
    sequence: int
    sender: UserKey
    users: tuple[UserKey, ...]


class Push(Protocol):
    """Hands notices on to whoever can reach the users' devices."""

    async def send(self, notices: Sequence[PushNotice]) -> None:
        """Hand them on: at least tried once; a failure is logged, not raised."""
        ...


class TextRejected(Exception):
    """The provider works, but does not take this text: the number is none that it can reach."""


class Sms(Protocol):
    """Whoever can send texts to phones."""

    async def send(self, phone_number: str, text: str) -> None:
        """Hand the text on; it was taken over when this returns. Tried once, within a deadline.

        Raises:
            TextRejected: It was not taken over because of the number or the text.
            SmsUnavailable: It was not taken over for another reason, or nobody knows.
        """
        ...
