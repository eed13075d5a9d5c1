# SPDX-License-Identifier: Apache-2.0
"""Ports that reach users without a connection: push notices, and texts to phones."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey


class PushNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A new message in a chat, for those of its members who are not connected.

    It identifies the message and contains nothing of its content.
    """

    chat_id: ChatId
    sequence: int
    sender: UserKey
    users: tuple[UserKey, ...]


class Push(Protocol):
    """Service that can reach the users' devices."""

    async def send(self, notices: Sequence[PushNotice]) -> None:
        """Send the notices, with at least one attempt; a failure is logged, not raised."""
        ...


class TextRejected(Exception):
    """The provider works but rejected this text, because it cannot reach the number."""


class Sms(Protocol):
    """Provider that sends texts to phones."""

    async def send(self, phone_number: str, text: str) -> None:
        """Send a text, in one attempt within a deadline. On return, the provider has accepted it.

        Raises:
            TextRejected: The provider rejected the text because of the number or the content.
            SmsUnavailable: The provider did not accept the text for another reason, or it is
                unknown whether it did.
        """
        ...
