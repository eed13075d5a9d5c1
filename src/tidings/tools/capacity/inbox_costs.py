# SPDX-License-Identifier: Apache-2.0
"""What our own use cases of the inbox use: held to the recorder by the contract suite.

All of it in an inbox that the process knows. Each process that has anything to do with an inbox
looks at its settings and its log anew, once a second at most, whatever is asked of it meanwhile.
"""

import math
from typing import Final

from tidings.model import limits
from tidings.tools.capacity.charges import Charge, Units, relaxed_units, strong_units, write_units
from tidings.tools.capacity.costs import BATCH_ITEMS_MAX, Cost

TABLE: Final = "inbox"
BODY_BYTES: Final = 230
"""Of a notification's item, or an announcement's, without the text, but with the seal."""
COPY_BYTES: Final = 136
JOB_BYTES: Final = 250
JOB_USER_BYTES: Final = 28
BATCH_JOBS_MAX: Final = 25
QUEUE: Final = frozenset({"put_jobs", "take_jobs", "delete_job"})
"""What is used only where jobs are kept in the store: by a deployment of one process."""


def _writes(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(write=units), requests)


def _reads(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(read=units), requests)


def post(users: int, content: int, *, in_store: bool = False) -> Cost:
    """To listed users, until all have their copies; jobs in the store, or in Kafka or SQS."""
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
    """One write, however many users there are; then the entry before it may expire."""
    claim = [_writes("claim_post_key", 1)] if has_key else []
    announced = _writes("announce", write_units(BODY_BYTES + content))
    return Cost(
        [*claim, _reads("show_user_count", 0.5), announced],
        [_writes("let_go", 1)],
    )


def redact(content: int, *, is_for_everyone: bool) -> Cost:
    """However many users have it: the log tells, and the content goes."""
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
    """A page of a user's copies, with their bodies."""
    bodies = count * relaxed_units(BODY_BYTES + content)
    return Cost(
        [
            _reads("list_copies", strong_units((count + 1) * COPY_BYTES)),
            _reads("read_marks", 1),
            _reads("show_notifications", bodies, math.ceil(count / BATCH_ITEMS_MAX)),
        ]
    )


def unread(copies: int) -> Cost:
    """Counted from all copies a user has, and the log that the process knows."""
    return Cost([_reads("read_marks", 1), _reads("list_copies", strong_units(copies * COPY_BYTES))])


def read_one(copies: int) -> Cost:
    """One copy is marked; the answer says what is left."""
    return Cost([_writes("mark_copy", 1), *unread(copies).to_the_answer])


def read_before(copies: int) -> Cost:
    """All are read, of everyone's the log as it is now; the answer says what is left."""
    log = _reads("read_announcements", 1)
    return Cost([_writes("move_marks", 1), log, *unread(copies).to_the_answer])


def progress(content: int) -> Cost:
    """How many users have it."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost([_reads("show_notifications", body), _reads("read_progress", 1)])


def look_anew() -> Cost:
    """What a process does once a second at most for each inbox it is asked about."""
    return Cost([_reads("read_inbox", 1), _reads("read_announcements", 1)])
