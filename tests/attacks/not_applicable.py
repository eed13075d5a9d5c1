# SPDX-License-Identifier: Apache-2.0
"""Attacks on what Tidings does not have, each with the reason why no test stands for it."""

from typing import Final

NOT_APPLICABLE: Final[dict[str, str]] = {
    "C19": "TLS is terminated in front of the port; a public server prints this at start-up.",
    "D19": "Users cannot block each other: the host application decides who shares a chat.",
    "E19": "There are no attachments: messages are text, and nothing is stored as a file.",
    "W01": "Only the operator configures the addresses that Tidings calls; no tenant can.",
    "W02": "Only the operator configures these addresses, and may name an internal one.",
}
