# SPDX-License-Identifier: Apache-2.0
"""Access patterns for users who get an e-mail about an unread notification."""

from typing import Final

from tidings.stores.dynamodb.client.access import Pattern

_INBOX: Final = ("inbox",)

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
