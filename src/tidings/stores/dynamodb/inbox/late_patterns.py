# SPDX-License-Identifier: Apache-2.0
"""Access patterns for notifications that wait for their time of delivery."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)

HOLD_JOBS: Final = Pattern(
    "hold_jobs", "BatchWriteItem", _INBOX, "delivery jobs wait for the time of their notification"
)
READ_HELD_JOBS: Final = Pattern(
    "read_held_jobs", "Query", _INBOX, "the waiting jobs of a notification", strong=True
)
RELEASE_JOBS: Final = Pattern(
    "release_jobs", "BatchWriteItem", _INBOX, "waiting jobs are queued, or not needed any more"
)
MARK_SCHEDULED: Final = Pattern(
    "mark_scheduled",
    "UpdateItem",
    _INBOX,
    "a scheduled broadcast is about to be appended, or is in the log; a scheduled notification was "
    "restored too late, or given up",
)
