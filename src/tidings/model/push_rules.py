# SPDX-License-Identifier: Apache-2.0
"""The rules of push: which messages a member is notified of, and what a notice shows."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.limits import SECOND_MS

BODY_CHARS_MAX: Final = 200
"""Length of the content that a notice shows."""
ELLIPSIS: Final = "…"
YOUNG_MS_MAX: Final = 30 * SECOND_MS
"""Maximum age at which the entry in an event is used as it is. An older entry is read from the log,
and no push is sent for it."""

Reason = Literal[
    "own", "not_new", "silent", "blocked", "taken", "muted", "quiet", "not_claimed", "content_gone",
]  # fmt: skip
"""Why a member is not notified of a message:

- `own`: the member sent it.
- `not_new`: it is no message, or the member joined later.
- `silent`: the sender asked for no notice.
- `blocked`: the member blocks the sender.
- `taken`: a device that is not away has taken it in time.
- `muted`: the member muted the chat; messages that mention the member may be excepted.
- `quiet`: the member has quiet hours.
- `not_claimed`: the member has read it, left the chat, or was notified already.
- `content_gone`: it was redacted, has expired or was erased since.
"""


class ArrivedMessage(msgspec.Struct, frozen=True):
    """A message of which a member may be notified."""

    sequence: int
    sender: UserKey
    is_mention: bool
    """Whether the message mentions this member."""


def reason_at_arrival(
    entry: Entry, user: UserKey, joined: int, *, is_blocked: bool
) -> Reason | None:
    """Return why a member is not notified of a new entry, as far as the entry shows this; None if
    there is no reason yet."""
    if entry.kind != "message" or joined >= entry.sequence:
        return "not_new"
    if entry.sender == user:
        return "own"
    if entry.silent:
        return "silent"
    return "blocked" if is_blocked else None


def heard(
    messages: Sequence[ArrivedMessage], now: int, muted_until: int, *, except_mentions: bool
) -> list[ArrivedMessage]:
    """Return the messages that a mute lets through; all of them if the mute has ended."""
    if muted_until <= now:
        return list(messages)
    return [message for message in messages if except_mentions and message.is_mention]


def shown_body(entry: Entry) -> str | None:
    """Return the beginning of a message for a notice; None if it is no text, or is empty."""
    text = entry.content
    if not text or not (entry.content_type or "text/plain").startswith("text/"):
        return None
    return shortened(text)


def shortened(text: str) -> str:
    """Return a text in one line, and only its beginning if it is long."""
    one_line = " ".join(text.split())
    return (
        one_line if len(one_line) <= BODY_CHARS_MAX else one_line[: BODY_CHARS_MAX - 1] + ELLIPSIS
    )
