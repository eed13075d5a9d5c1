# SPDX-License-Identifier: Apache-2.0
"""Marks the content of every message in tests, so that plain text on a disk can be found.

After a test run, a scan searches the folders of the servers for the mark. Files that a test itself
writes there, such as a history, must therefore not contain the mark.
"""

from typing import Final

MARK: Final = "CANARY-7f3a91c25be0"


def canary(text: str) -> str:
    """Return the text with the mark that the scan would find."""
    return f"{MARK} {text}"
