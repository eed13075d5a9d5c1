# SPDX-License-Identifier: Apache-2.0
"""Sending a short text to a phone."""

from typing import Protocol


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
