# SPDX-License-Identifier: Apache-2.0
"""Access patterns for the inbox, all on one table."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)

# Settings.

READ_SETTINGS: Final = Pattern(
    "read_settings",
    "GetItem",
    _INBOX,
    "a tenant's settings for inboxes, logins and invitations",
    strong=True,
)
KEEP_SETTINGS: Final = Pattern("keep_settings", "PutItem", _INBOX, "a tenant's settings change")
READ_INBOX: Final = Pattern("read_inbox", "GetItem", _INBOX, "an inbox", strong=True)
LIST_INBOXES: Final = Pattern(
    "list_inboxes", "Query", _INBOX, "the inboxes of a tenant, by name", strong=True
)
KEEP_INBOX: Final = Pattern("keep_inbox", "UpdateItem", _INBOX, "an inbox is created or changed")
COUNT_USERS: Final = Pattern(
    "count_users", "UpdateItem", _INBOX, "update a tenant's approximate number of users"
)
SHOW_USER_COUNT: Final = Pattern(
    "show_user_count", "GetItem", _INBOX, "a tenant's approximate number of users"
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
    "find_notifications",
    "BatchGetItem",
    _INBOX,
    "bodies that the first, relaxed read missed",
    strong=True,
)
LIST_NOTIFICATIONS: Final = Pattern(
    "list_notifications",
    "Query",
    _INBOX,
    "what a tenant posted to listed users, newest first",
    strong=True,
)
EMPTY_NOTIFICATION: Final = Pattern(
    "empty_notification", "UpdateItem", _INBOX, "remove the content of a retracted notification"
)
APPEND_BROADCAST: Final = Pattern(
    "append_broadcast",
    "PutItem",
    _INBOX,
    "a broadcast or a retraction claims its position in the log",
)
LET_GO: Final = Pattern(
    "let_go",
    "UpdateItem",
    _INBOX,
    "let a broadcast expire once the next one follows",
)
EMPTY_ANNOUNCEMENT: Final = Pattern(
    "retract_broadcast", "UpdateItem", _INBOX, "remove the content of a retracted broadcast"
)
READ_ANNOUNCEMENTS: Final = Pattern(
    "read_broadcasts",
    "Query",
    _INBOX,
    "the log of an inbox, ascending or descending",
    strong=True,
)
FINISH_PORTION: Final = Pattern(
    "finish_portion", "UpdateItem", _INBOX, "record that a portion of the users have their copies"
)
READ_PROGRESS: Final = Pattern(
    "read_progress", "Query", _INBOX, "which portions are done", strong=True
)

# Copies and read marks.

DELIVER_COPY: Final = Pattern(
    "deliver_copy", "PutItem", _INBOX, "a user's copy of a notification, if it does not exist yet"
)
LIST_COPIES: Final = Pattern(
    "list_copies", "Query", _INBOX, "a user's copies, newest first", strong=True
)
FIND_HOLDERS: Final = Pattern(
    "find_holders", "BatchGetItem", _INBOX, "which of some users have a copy", strong=True
)
MARK_COPY: Final = Pattern("mark_copy", "UpdateItem", _INBOX, "a user has read one copy")
READ_MARKS: Final = Pattern(
    "read_marks",
    "Query",
    _INBOX,
    "a user's marks in an inbox, and the states of single broadcasts",
    strong=True,
)
MOVE_MARKS: Final = Pattern(
    "move_marks", "UpdateItem", _INBOX, "a user has read everything before a time, or a broadcast"
)
CHANGE_COPY: Final = Pattern(
    "change_copy", "UpdateItem", _INBOX, "a user changes the states of one copy"
)
CHANGE_BROADCAST_STATES: Final = Pattern(
    "change_broadcast_states",
    "UpdateItem",
    _INBOX,
    "a user changes the states of one broadcast",
)
ACT_ON_NOTIFICATION: Final = Pattern(
    "act_on_notification", "UpdateItem", _INBOX, "a user chooses an action of a notification"
)
DROP_BROADCAST_STATES: Final = Pattern(
    "drop_broadcast_states", "DeleteItem", _INBOX, "states of a broadcast that the marks imply"
)

# Jobs.

PUT_JOBS: Final = Pattern(
    "put_jobs", "BatchWriteItem", _INBOX, "delivery jobs of a deployment of one process"
)
TAKE_JOBS: Final = Pattern("take_jobs", "Query", _INBOX, "the next delivery jobs", strong=True)
DELETE_JOB: Final = Pattern("delete_job", "DeleteItem", _INBOX, "a delivery job is done")
KEEP_DEAD_LETTER: Final = Pattern("keep_aside", "PutItem", _INBOX, "store a dead letter")
LIST_ASIDE: Final = Pattern("list_aside", "Query", _INBOX, "list dead letters", strong=True)
READ_ASIDE: Final = Pattern("read_aside", "GetItem", _INBOX, "one dead letter", strong=True)
DROP_ASIDE: Final = Pattern("drop_aside", "DeleteItem", _INBOX, "delete a dead letter")

# Export and import.

SCAN_INBOX: Final = Pattern(
    "scan_inbox",
    "Scan",
    _INBOX,
    "an export lists inboxes and users with copies; checks that a store is empty",
    strong=True,
)
EXPORT_INBOX: Final = Pattern(
    "export_inbox", "Query", _INBOX, "an export reads notifications and broadcasts", strong=True
)
EXPORT_COPIES: Final = Pattern(
    "export_copies", "Query", _INBOX, "an export reads a user's copies and read marks", strong=True
)
IMPORT_INBOX: Final = Pattern(
    "import_inbox", "PutItem", _INBOX, "an import writes inboxes and their notifications"
)

# Preferences.

PUT_PREFERENCES: Final = Pattern(
    "put_preferences", "UpdateItem", _INBOX, "a user's preferences in an inbox change"
)
BEGIN_PREFERENCES: Final = Pattern(
    "begin_preferences",
    "UpdateItem",
    _INBOX,
    "the first user of an inbox has preferences: delivery has to ask for them",
)
READ_PREFERENCES: Final = Pattern(
    "read_preferences",
    "BatchGetItem",
    _INBOX,
    "preferences of the users who get a copy, or a broadcast on their connections",
)

# Notifications that wait for their time of delivery.

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

# E-mails about unread notifications.

PUT_ESCALATIONS: Final = Pattern(
    "put_escalations",
    "BatchWriteItem",
    _INBOX,
    "portions of users become due who get an e-mail if a notification is still unread then",
)
READ_ESCALATION: Final = Pattern(
    "read_escalation", "GetItem", _INBOX, "the users of a portion that is due", strong=True
)
REPLACE_ESCALATION: Final = Pattern(
    "replace_escalation", "PutItem", _INBOX, "some users of a portion are decided, others later"
)
DROP_ESCALATION: Final = Pattern(
    "drop_escalation", "DeleteItem", _INBOX, "all users of a portion are decided"
)
READ_COPIES: Final = Pattern(
    "read_copies", "BatchGetItem", _INBOX, "which users have not read a notification"
)
CLAIM_EMAIL: Final = Pattern(
    "claim_email",
    "UpdateItem",
    _INBOX,
    "an e-mail about a copy is claimed, its claim is released, or its outcome is known",
)
