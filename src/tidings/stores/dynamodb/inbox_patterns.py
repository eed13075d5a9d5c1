# SPDX-License-Identifier: Apache-2.0
"""The access patterns of the inbox, all of them of one table."""

from typing import Final

from tidings.stores.dynamodb.access import Pattern

_INBOX: Final = ("inbox",)

# What a tenant says.

READ_SETTINGS: Final = Pattern(
    "read_settings",
    "GetItem",
    _INBOX,
    "what a tenant says about inboxes, logging in and invitations",
    strong=True,
)
KEEP_SETTINGS: Final = Pattern("keep_settings", "PutItem", _INBOX, "a tenant's settings change")
READ_INBOX: Final = Pattern("read_inbox", "GetItem", _INBOX, "what an inbox is", strong=True)
KEEP_INBOX: Final = Pattern("keep_inbox", "PutItem", _INBOX, "an inbox is made or changed")
COUNT_USERS: Final = Pattern(
    "count_users", "UpdateItem", _INBOX, "about how many users a tenant has got"
)
SHOW_USER_COUNT: Final = Pattern(
    "show_user_count", "GetItem", _INBOX, "about how many users a tenant has"
)

# Notifications.

CLAIM_POST_KEY: Final = Pattern("claim_post_key", "PutItem", _INBOX, "a post claims its key")
PUT_NOTIFICATION: Final = Pattern(
    "put_notification", "PutItem", _INBOX, "the body of a notification for listed users"
)
SHOW_NOTIFICATIONS: Final = Pattern(
    "show_notifications", "BatchGetItem", _INBOX, "bodies of the copies in a list"
)
FIND_NOTIFICATIONS: Final = Pattern(
    "find_notifications", "BatchGetItem", _INBOX, "bodies that were not seen at first", strong=True
)
EMPTY_NOTIFICATION: Final = Pattern(
    "empty_notification", "UpdateItem", _INBOX, "a notification is taken back: its content goes"
)
ANNOUNCE: Final = Pattern(
    "announce", "PutItem", _INBOX, "something for everyone, or a retraction, takes its place"
)
LET_GO: Final = Pattern(
    "let_go",
    "UpdateItem",
    _INBOX,
    "an announcement that is not the last one may be deleted in time",
)
EMPTY_ANNOUNCEMENT: Final = Pattern(
    "empty_announcement", "UpdateItem", _INBOX, "an announcement is taken back: its content goes"
)
READ_ANNOUNCEMENTS: Final = Pattern(
    "read_announcements", "Query", _INBOX, "the log of an inbox, up or down", strong=True
)
FINISH_PORTION: Final = Pattern(
    "finish_portion", "UpdateItem", _INBOX, "a portion of the users have their copies"
)
READ_PROGRESS: Final = Pattern(
    "read_progress", "Query", _INBOX, "which portions are done", strong=True
)

# What each user has.

DELIVER_COPY: Final = Pattern(
    "deliver_copy", "PutItem", _INBOX, "a user's copy of a notification, unless it is there"
)
LIST_COPIES: Final = Pattern(
    "list_copies", "Query", _INBOX, "a user's copies, newest first", strong=True
)
FIND_HOLDERS: Final = Pattern(
    "find_holders", "BatchGetItem", _INBOX, "which of some users have a copy", strong=True
)
MARK_COPY: Final = Pattern("mark_copy", "UpdateItem", _INBOX, "a user has read one copy")
READ_MARKS: Final = Pattern(
    "read_marks", "GetItem", _INBOX, "what a user has read of an inbox", strong=True
)
MOVE_MARKS: Final = Pattern(
    "move_marks", "UpdateItem", _INBOX, "a user has read all before a time, or an announcement"
)

# Jobs.

PUT_JOBS: Final = Pattern(
    "put_jobs", "BatchWriteItem", _INBOX, "delivery jobs of a deployment of one process"
)
TAKE_JOBS: Final = Pattern("take_jobs", "Query", _INBOX, "the next delivery jobs", strong=True)
DELETE_JOB: Final = Pattern("delete_job", "DeleteItem", _INBOX, "a delivery job is done")
KEEP_ASIDE: Final = Pattern("keep_aside", "PutItem", _INBOX, "a job that nobody could do")
LIST_ASIDE: Final = Pattern("list_aside", "Query", _INBOX, "jobs set aside", strong=True)
READ_ASIDE: Final = Pattern("read_aside", "GetItem", _INBOX, "one job set aside", strong=True)
DROP_ASIDE: Final = Pattern("drop_aside", "DeleteItem", _INBOX, "an operator dealt with a job")

# Moving.

SCAN_INBOX: Final = Pattern(
    "scan_inbox",
    "Scan",
    _INBOX,
    "an export lists inboxes and who has copies; is a store empty?",
    strong=True,
)
EXPORT_INBOX: Final = Pattern(
    "export_inbox", "Query", _INBOX, "an export reads what was posted", strong=True
)
EXPORT_COPIES: Final = Pattern(
    "export_copies", "Query", _INBOX, "an export reads a user's copies and read marks", strong=True
)
IMPORT_INBOX: Final = Pattern(
    "import_inbox", "PutItem", _INBOX, "an import writes all that inboxes hold"
)
