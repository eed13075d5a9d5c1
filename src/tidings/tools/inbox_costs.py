# SPDX-License-Identifier: Apache-2.0
"""Units that each use case of the inbox takes in Tidings, by access pattern.

A contract test compares every figure with the units that a real engine reports. The inbox is in
the process's cache. Each process that uses an inbox reads its settings and its log again at most
once per second, however many requests it gets.
"""

import math
from typing import Final

from tidings.model import limits
from tidings.tools.charges import Charge, Units, relaxed_units, strong_units, write_units
from tidings.tools.chat_costs import BATCH_ITEMS_MAX, Cost

TABLE: Final = "inbox"
BODY_BYTES: Final = 230
"""Size of the item of a notification or broadcast: with encryption, without the text."""
COPY_BYTES: Final = 136
JOB_BYTES: Final = 250
JOB_USER_BYTES: Final = 28
BATCH_JOBS_MAX: Final = 25
QUEUE: Final = frozenset({"put_jobs", "take_jobs", "delete_job"})
"""Access patterns of a deployment that stores its delivery jobs in DynamoDB: a single process."""


def _writes(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(write=units), requests)


def _reads(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(read=units), requests)


def post(users: int, content: int, *, in_store: bool = False) -> Cost:
    """Return the cost of a post to listed users until each has a copy.

    The delivery jobs are in the store, or in Kafka or SQS.
    """
    portions = math.ceil(users / limits.JOB_USERS_MAX)
    each = JOB_BYTES + JOB_USER_BYTES * min(users, limits.JOB_USERS_MAX)
    jobs = portions * write_units(each)
    put = _writes("put_jobs", jobs, math.ceil(portions / BATCH_JOBS_MAX))
    queue = [
        _reads("take_jobs", strong_units(portions * each)),
        _writes("delete_job", jobs, portions),
    ]
    return Cost(
        [
            _writes("put_notification", write_units(BODY_BYTES + content)),
            *([put] if in_store else ()),
        ],
        [
            _writes("deliver_copy", users, users),
            _writes("finish_portion", portions, portions),
            *(queue if in_store else ()),
        ],
    )


def post_to_everyone(content: int, *, has_key: bool) -> Cost:
    """Return the cost of a broadcast: one write, however many users there are.

    After it, the previous entry is allowed to expire.
    """
    claim = [_writes("claim_post_key", 1)] if has_key else []
    announced = _writes("announce", write_units(BODY_BYTES + content))
    return Cost(
        [*claim, _reads("show_user_count", 0.5), announced],
        [_writes("let_go", 1)],
    )


def redact(content: int, *, is_for_everyone: bool) -> Cost:
    """Return the cost of a retraction, however many users have a copy.

    An entry in the inbox's log announces it, and the content is deleted.
    """
    body = BODY_BYTES + content
    found = _reads("show_notifications", relaxed_units(body))
    pattern = "empty_announcement" if is_for_everyone else "empty_notification"
    log = strong_units(body) + 1 if is_for_everyone else 1
    return Cost(
        [
            *([] if is_for_everyone else [found]),
            _reads("read_announcements", log, 2 if is_for_everyone else 1),
            _writes("announce", 1),
            _writes(pattern, write_units(body)),
        ],
        [_writes("let_go", 1)],
    )


def list_page(count: int, content: int) -> Cost:
    """Return the cost of a page of a user's copies with their texts."""
    bodies = count * relaxed_units(BODY_BYTES + content)
    return Cost(
        [
            _reads("list_copies", strong_units((count + 1) * COPY_BYTES)),
            _reads("read_marks", 1),
            _reads("show_notifications", bodies, math.ceil(count / BATCH_ITEMS_MAX)),
        ]
    )


def unread(copies: int) -> Cost:
    """Return the cost of an unread count from all copies of a user and the cached log."""
    return Cost([_reads("read_marks", 1), _reads("list_copies", strong_units(copies * COPY_BYTES))])


def read_one(copies: int) -> Cost:
    """Return the cost of marking one copy read; the answer contains the new unread count."""
    return Cost([_writes("mark_copy", 1), *unread(copies).to_the_answer])


def read_before(copies: int) -> Cost:
    """Return the cost of marking everything read, broadcasts up to the log's current end.

    The answer contains the new unread count.
    """
    log = _reads("read_announcements", 1)
    return Cost([_writes("move_marks", 1), log, *unread(copies).to_the_answer])


def progress(content: int) -> Cost:
    """Return the cost of asking how many users have their copy."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost([_reads("show_notifications", body), _reads("read_progress", 1)])


def look_anew() -> Cost:
    """Return the cost of reading an inbox again, at most once per second and process."""
    return Cost([_reads("read_inbox", 1), _reads("read_announcements", 1)])
