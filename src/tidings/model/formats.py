# SPDX-License-Identifier: Apache-2.0
"""Formats of stored data that older versions cannot read.

During an upgrade, processes of two versions share a store. A process therefore writes a new format
only if the deployment allows it: `Deployment.writes` is the newest format that may be written. All
formats up to `NEWEST` can be read at any time.
"""

from typing import Final

PACKS: Final = 1
"""Several messages in one item, and messages without an idempotency key."""

NEWEST: Final = PACKS
"""The newest format that this version knows."""
