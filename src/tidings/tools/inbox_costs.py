# SPDX-License-Identifier: Apache-2.0
"""Units that each use case of the inbox takes, by access pattern.

A contract test compares every figure with the units that a real engine reports.

The figures are for a process that has cached the inbox. It reads the settings and the log of the
inbox again at most once per second, however many requests it gets.
"""

import math
from typing import Final

from tidings.model import limits
from tidings.tools.charges import Charge, Units, relaxed_units, strong_units, write_units
from tidings.tools.chat_costs import BATCH_ITEMS_MAX, Cost

TABLE: Final = "inbox"
BODY_BYTES: Final = 230
"""Size of the item of a notification or broadcast, with encryption and without the text."""
COPY_BYTES: Final = 136
JOB_BYTES: Final = 250
JOB_USER_BYTES: Final = 28
BATCH_JOBS_MAX: Final = 25
QUEUE: Final = frozenset({"put_jobs", "take_jobs", "delete_job"})
"""Access patterns of the delivery queue if it is in DynamoDB, as in a deployment with a single
process."""


def _writes(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(write=units), requests)


def _reads(pattern: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, TABLE, Units(read=units), requests)


def post(users: int, content: int, *, in_store: bool = False) -> Cost:
    """Return the cost of a post to listed users, until each user has a copy.

    The delivery jobs are in the store if `in_store` is true; otherwise they are in Kafka or SQS.
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
    """Return the cost of a broadcast, which takes one write, however many users there are.

    After the answer, another write allows the previous entry to expire.
    """
    claim = [_writes("claim_post_key", 1)] if has_key else []
    announced = _writes("append_broadcast", write_units(BODY_BYTES + content))
    return Cost(
        [*claim, _reads("show_user_count", 0.5), announced],
        [_writes("let_go", 1)],
    )


def redact(content: int, *, is_for_everyone: bool) -> Cost:
    """Return the cost of a retraction, which is the same however many users have a copy.

    An entry in the inbox's log announces the retraction, and the content is deleted.
    """
    body = BODY_BYTES + content
    found = _reads("show_notifications", relaxed_units(body))
    pattern = "retract_broadcast" if is_for_everyone else "empty_notification"
    log = strong_units(body) + 1 if is_for_everyone else 1
    return Cost(
        [
            *([] if is_for_everyone else [found]),
            _reads("read_broadcasts", log, 2 if is_for_everyone else 1),
            _writes("append_broadcast", 1),
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
    """Return the cost of an unread count, which uses all copies of a user and the cached log."""
    return Cost(
        [
            _reads("read_marks", 1),
            _reads("list_copies", strong_units(copies * COPY_BYTES)),
        ]
    )


def read_one(copies: int) -> Cost:
    """Return the cost of marking one copy as read, and of the new unread count in the answer."""
    return Cost([_writes("mark_copy", 1), *unread(copies).to_the_answer])


def read_before(copies: int) -> Cost:
    """Return the cost of marking everything as read, including all broadcasts in the log.

    The cost includes the new unread count in the answer.
    """
    log = _reads("read_broadcasts", 1)
    return Cost([_writes("move_marks", 1), log, *unread(copies).to_the_answer])


def change_one(copies: int) -> Cost:
    """Return the cost of changing states of one notification, such as archiving it.

    It reads the marks first, and counts what is unread for the answer.
    """
    changed = [_writes("change_copy", 1), _reads("read_marks", 1)]
    return Cost([*changed, *unread(copies).to_the_answer])


def change_broadcast(copies: int) -> Cost:
    """Return the cost of changing states of one broadcast, which get an item of their own."""
    changed = [_writes("change_broadcast_states", 1), _reads("read_marks", 1)]
    return Cost([*changed, *unread(copies).to_the_answer])


def act(content: int) -> Cost:
    """Return the cost of choosing an action of a notification for listed users."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost(
        [
            _reads("find_holders", 1),
            _reads("show_notifications", body),
            _writes("act_on_notification", 1),
        ]
    )


def read_posted_before(copies: int) -> Cost:
    """Return the cost of marking everything as read under `/stack`, where times are whole seconds.

    It also reads which copies reached the user after that time.
    """
    return Cost([*unread(copies).to_the_answer, *read_before(copies).to_the_answer])


def progress(content: int) -> Cost:
    """Return the cost of a request for the number of users who have their copy."""
    body = relaxed_units(BODY_BYTES + content)
    return Cost([_reads("show_notifications", body), _reads("read_progress", 1)])


def schedule_post(users: int, content: int) -> Cost:
    """Return the cost of scheduling a notification for listed users, without its delivery."""
    portions = math.ceil(users / limits.JOB_USERS_MAX)
    each = JOB_BYTES + JOB_USER_BYTES * min(users, limits.JOB_USERS_MAX)
    return Cost(
        [
            _writes("put_due", 1),
            _writes("hold_jobs", portions * write_units(each), math.ceil(portions / 25)),
            _writes("put_notification", write_units(BODY_BYTES + content)),
        ]
    )


def deliver_late(users: int) -> Cost:
    """Return the cost of delivering a scheduled notification to at most 100 users at its time."""
    assert users <= limits.JOB_USERS_MAX, "several jobs go through the queue"
    held = JOB_BYTES + JOB_USER_BYTES * users
    return Cost(
        [
            _reads("show_notifications", relaxed_units(BODY_BYTES)),
            _reads("read_broadcasts", 1),
            _reads("read_held_jobs", strong_units(held)),
            *post(users, 0).afterwards,
            _writes("release_jobs", write_units(held)),
            _writes("drop_all_due", 1),
        ]
    )


def escalate(users: int, emails: int, content: int) -> Cost:
    """Return the cost of an escalation at its time: no user of a portion has read the notification,
    and `emails` of them have an address and get an e-mail."""
    portion = JOB_BYTES + JOB_USER_BYTES * users
    body = relaxed_units(BODY_BYTES + content)
    return Cost(
        [
            _reads("read_escalation", strong_units(portion)),
            Charge("find_tenant", "tenants", Units(read=1), 1),
            _reads("show_notifications", body * (1 + emails), 1 + emails),
            _reads("read_progress", 1),
            _reads("read_copies", users * relaxed_units(COPY_BYTES)),
            Charge("show_users", "users", Units(read=users * relaxed_units(1)), 1),
            _reads("read_marks", emails, emails),
            _writes("claim_email", 2 * emails, 2 * emails),
            _writes("drop_escalation", write_units(portion)),
            _writes("drop_due", 1),
        ]
    )


def schedule_broadcast(content: int) -> Cost:
    """Return the cost of scheduling a broadcast."""
    return Cost(
        [
            _writes("put_due", 1),
            _reads("show_user_count", 0.5),
            _writes("put_notification", write_units(BODY_BYTES + content)),
        ]
    )


def append_late(content: int) -> Cost:
    """Return the cost of appending a scheduled broadcast at its time, for any number of users."""
    body = write_units(BODY_BYTES + content)
    return Cost(
        [
            _reads("show_notifications", relaxed_units(BODY_BYTES + content)),
            _reads("read_broadcasts", 1),
            _reads("show_user_count", 0.5),
            _writes("mark_scheduled", 2 * body, 2),
            _writes("append_broadcast", body),
            _writes("drop_all_due", 1),
        ],
        [_writes("let_go", 1)],
    )


def put_preferences(*, is_first: bool) -> Cost:
    """Return the cost of a user's new preferences.

    The first preferences in an inbox also mark the inbox, so that delivery reads preferences from
    then on.
    """
    first = _writes("begin_preferences", 1) if is_first else _reads("read_marks", 1)
    return Cost([first, _writes("put_preferences", 1)])


def plan_emails(users: int) -> Cost:
    """Return what a post with an escalation costs more than one without."""
    portions = math.ceil(users / limits.JOB_USERS_MAX)
    each = JOB_BYTES + JOB_USER_BYTES * min(users, limits.JOB_USERS_MAX)
    units = portions * (1 + write_units(each))
    return Cost([_writes("put_escalations", units, 2 * math.ceil(portions / BATCH_JOBS_MAX))])


def post_by_preference(users: int, content: int) -> Cost:
    """Return the cost of a post to listed users in an inbox in which some users have preferences.

    It reads the preferences of every listed user, whether the user has some or not.
    """
    portions = math.ceil(users / limits.JOB_USERS_MAX)
    posted = post(users, content, in_store=True)
    asked = _reads("read_preferences", users * relaxed_units(1), portions)
    return Cost(posted.to_the_answer, [*posted.afterwards, asked])


def look_anew() -> Cost:
    """Return the cost of reading an inbox again, which a process does at most once per second."""
    return Cost([_reads("read_inbox", 1), _reads("read_broadcasts", 1)])
