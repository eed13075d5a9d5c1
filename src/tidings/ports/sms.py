# SPDX-License-Identifier: Apache-2.0
"""Sending a short text to a phone."""

from typing import Protocol


class Sms(Protocol):
    """Whoever can send texts to phones."""

    async def send(self, phone_number: str, text: str) -> None:
        """Hand the text on; it was taken over when this returns. Tried once, within a deadline.

        Raises:
            SmsUnavailable: It was not taken over, or nobody knows.
        """
        ...
