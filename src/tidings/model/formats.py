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

OLDEST: Final = HEADS
"""The format that this version always writes."""

NEWEST: Final = PACKS
"""The newest format that this version knows."""
