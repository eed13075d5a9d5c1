# SPDX-License-Identifier: Apache-2.0
"""Formats of stored data that older versions cannot read.

During an upgrade, processes of two versions share a store. A process therefore writes a new format
only if the deployment allows it: `Deployment.writes` is the newest format that may be written. All
formats up to `NEWEST` can be read at any time. A version that always writes a new format cannot
share a store with older versions, and refuses to start until the deployment allows `OLDEST`.
"""

from typing import Final

HEADS: Final = 2
"""Heads and last messages are stored in the items that lists read. Older versions write heads
elsewhere, and do not remove the copy of a message that they redact."""

PACKS: Final = 3
"""Several messages in one item, and messages without an idempotency key."""

SETTINGS: Final = 4
"""Entries of the kinds `settings`, `pinned` and `unpinned`, and messages with options: replies,
mentions, silent messages and attachments. An older version would not enforce the settings, would
remove pins and counts of replies from messages that share an item, and would not remove the files
of a message that it redacts."""

OLDEST: Final = HEADS
"""The format that this version always writes."""

NEWEST: Final = SETTINGS
"""The newest format that this version knows."""

NOT_YET: Final = "a process of an older version may be running"
"""Why something that needs a newer format is refused."""
