# SPDX-License-Identifier: Apache-2.0
"""What stands in paths. A name that cannot be one is refused as one that is not there."""

import re
from typing import Any, Final

from tidings.actions.jobs_aside import ASIDE
from tidings.actions.signing_keys import KEY_ID
from tidings.model import limits
from tidings.model.deletions import JOB
from tidings.model.ids import (
    CHAT,
    MESSAGE,
    SEQUENCE_MAX,
    SESSION,
    TENANT,
    USER,
    ChatId,
    UserKey,
    tenant_of,
)
from tidings.model.notifications import INBOX, NOTIFICATION
from tidings.model.refusals import ChatNotFound, Invalid, MessageNotFound, TenantNotFound

_SEQUENCE: Final = re.compile(r"[1-9][0-9]{0,15}")
_LIMIT: Final = re.compile(r"[1-9][0-9]{0,2}")


def _matching(pattern: re.Pattern[str]) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^({pattern.pattern})$"}


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "aside_id": _matching(ASIDE),
    "chat_id": _matching(CHAT),
    "emoji": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.EMOJI_BYTES_MAX,
        "pattern": r"^[^\s/]+$",
    },
    "inbox": _matching(INBOX),
    "job_id": _matching(JOB),
    "key_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    "limit": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_MAX},
    "message_id": _matching(MESSAGE),
    "notification_id": _matching(NOTIFICATION),
    "signing_key_id": _matching(KEY_ID),
    "session_id": _matching(SESSION),
    "sequence": {"type": "integer", "minimum": 1, "maximum": SEQUENCE_MAX},
    "tenant": _matching(TENANT),
    "user_id": _matching(USER),
}
"""The form of each parameter, as the OpenAPI document tells it."""


def chat(chat_id: str) -> ChatId:
    """The chat a path names."""
    if CHAT.fullmatch(chat_id) is None:
        raise ChatNotFound
    return ChatId(chat_id)


def place(sequence: str) -> int:
    """The sequence a path names."""
    if _SEQUENCE.fullmatch(sequence) is None or int(sequence) > SEQUENCE_MAX:
        raise MessageNotFound
    return int(sequence)


def limit_in_path(limit: str) -> int:
    """How many a path asks for."""
    if _LIMIT.fullmatch(limit) is None or int(limit) > limits.PAGE_MAX:
        raise Invalid(f"limit: 1 to {limits.PAGE_MAX}", "/limit")
    return int(limit)


def check_own_tenant(tenant: str, user: UserKey) -> None:
    """Refuse a path that names another tenant than the user's own as one that is not there."""
    if tenant_of(user) != tenant:
        raise TenantNotFound
