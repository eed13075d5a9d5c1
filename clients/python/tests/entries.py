# SPDX-License-Identifier: Apache-2.0
"""Entries for tests, short to write."""

from datetime import UTC, datetime

from tidings_client.frames import Entry

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def message(sequence: int, chat: str = "c", sender: str = "bob", content: str = "") -> Entry:
    """A message at this place."""
    return Entry(
        chat=chat,
        sequence=sequence,
        kind="message",
        sender=sender,
        created_at=NOON,
        message_id=f"{chat}.{sequence}",
        client_message_id=f"id-{sequence}",
        content=content or f"number {sequence}",
        content_type="text/plain",
    )


def messages(first: int, last: int, chat: str = "c") -> list[Entry]:
    """Messages from one place to another."""
    return [message(sequence, chat) for sequence in range(first, last + 1)]
