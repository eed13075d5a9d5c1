# SPDX-License-Identifier: Apache-2.0
"""The mark in the content of every message that the tests send: on no disk may it stand in clear.

The scan after a test run searches the servers' folders for it. What a test itself writes there
(a history, a log of its own) must therefore not contain content.
"""

from typing import Final

MARK: Final = "CANARY-7f3a91c25be0"


def canary(text: str) -> str:
    """Content that says what it is, and that the scan would find."""
    return f"{MARK} {text}"
