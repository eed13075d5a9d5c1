# SPDX-License-Identifier: Apache-2.0
"""E-mails about notifications: what one consists of, and which addresses it may go to."""

import re
from typing import Final, Literal

import msgspec

SUBJECT_CHARS_MAX: Final = 200
EMAIL: Final = re.compile(
    r"(?=.{1,64}@)(?=.{1,254}\Z)(?!.*=\?)"
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+"
    r"[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
"""An address that needs neither quotes nor an extension of SMTP. Quoted and international names
exist, but programs disagree about what they mean, as they do about `=?`, which begins an encoded
word in a header."""

EmailOutcome = Literal["sent", "later", "refused", "unknown"]
"""What became of an e-mail: the mail server took it, or asks to try again; it refuses it for good;
or the connection broke when the server may have taken it."""


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """An e-mail to one user."""

    recipient: str
    sender_name: str
    """Name beside the sender's address, which the operator sets."""
    subject: str
    text: str
    html: str
    message_id: str
    """Part of the message id before the `@`; the same if the e-mail is sent again."""
    unsubscribe_url: str | None
    """Where the user unsubscribes; None if the category is required."""


def one_line(text: str, most: int = SUBJECT_CHARS_MAX) -> str:
    """Return a text as one line, without control characters, for the header of an e-mail."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
