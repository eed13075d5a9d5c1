# SPDX-License-Identifier: Apache-2.0
"""Types of request fields, with the bounds of numbers, and the patterns and lengths of strings.

Bounds of numbers are enforced when a request is read. Patterns and lengths of strings are only
documented here. The actions enforce them, for REST and sockets alike, with specific codes.
"""

import re
from typing import Annotated, Any, Final

import msgspec

from tidings.actions.identity.json_web_keys import ALGORITHMS, KID
from tidings.actions.identity.phone_numbers import NUMBER_CHARS_MAX
from tidings.actions.identity.refresh_tokens import REFRESH_TOKEN
from tidings.actions.identity.signing_keys import KEY_ID
from tidings.actions.identity.users import USER_PREFIX
from tidings.actions.inbox.posted import ASIDE
from tidings.actions.search.queries import QUERY_CHARS_MAX
from tidings.actions.webhooks.deliveries import DELIVERY
from tidings.model import limits
from tidings.model.attachments import ATTACHMENT, ATTACHMENTS_MAX
from tidings.model.before_send import SECRET_VERSION_MAX
from tidings.model.chat_settings import SLOW_MODE_SECONDS_MAX
from tidings.model.entries import JOB
from tidings.model.ids import (
    CHAT,
    CLIENT_MESSAGE_ID,
    DEVICE,
    MESSAGE,
    SCHEDULED,
    SEQUENCE_MAX,
    SESSION,
    TENANT,
    TENANT_ITSELF,
    USER,
    ChatId,
    UserKey,
    from_rfc3339,
    locate,
    tenant_of,
)
from tidings.model.notifications import (
    ACTION,
    ACTION_LABEL_CHARS_MAX,
    CATEGORY,
    COLLAPSE_KEY_CHARS_MAX,
    INBOX,
    NOTIFICATION,
)
from tidings.model.refusals import ChatNotFound, Invalid, MessageNotFound, TenantNotFound
from tidings.model.webhooks import WEBHOOK

QUOTA_MAX: Final = 10**12
_SEQUENCE: Final = re.compile(r"[1-9][0-9]{0,15}")
_LIMIT: Final = re.compile(r"[1-9][0-9]{0,2}")


def documented(**schema: object) -> msgspec.Meta:
    """Return what a field's JSON schema says beyond its type; the server checks it elsewhere."""
    return msgspec.Meta(extra_json_schema=schema)


def _matching(pattern: re.Pattern[str]) -> msgspec.Meta:
    return documented(pattern=f"^({pattern.pattern})$")


Quota = Annotated[int, msgspec.Meta(ge=0, le=QUOTA_MAX)]
SecretVersion = Annotated[int, msgspec.Meta(ge=1, le=SECRET_VERSION_MAX)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=limits.PAGE_MAX)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
TtlSeconds = Annotated[int, msgspec.Meta(ge=1, le=limits.TTL_SECONDS_MAX)]
SlowModeSeconds = Annotated[int, msgspec.Meta(ge=0, le=SLOW_MODE_SECONDS_MAX)]
TokenSeconds = Annotated[int, msgspec.Meta(ge=1, le=limits.TOKEN_SECONDS_MAX)]

UserId = Annotated[str, _matching(USER)]
NamedSender = Annotated[str, msgspec.Meta(pattern=f"^({TENANT_ITSELF}|{USER.pattern})$")]
"""The user in whose name a tenant acts, or the tenant itself. It is checked when the request is
read, because the audit trail records it."""
UserPrefix = Annotated[str, _matching(USER_PREFIX)]
Device = Annotated[str, _matching(DEVICE)]
TenantName = Annotated[str, _matching(TENANT)]
Code = Annotated[str, documented(pattern=f"^[0-9]{{{limits.CODE_DIGITS}}}$")]
RefreshToken = Annotated[str, _matching(REFRESH_TOKEN)]
ClientMessageId = Annotated[str, _matching(CLIENT_MESSAGE_ID)]
_NUMBERS: Final = ["+14155550123", "+41 79 123 45 67"]
PhoneNumber = Annotated[str, documented(maxLength=NUMBER_CHARS_MAX, examples=_NUMBERS)]
PhoneNumbers = Annotated[
    list[Annotated[str, documented(examples=_NUMBERS)]],  # any spelling of a number is accepted
    msgspec.Meta(min_length=1, max_length=limits.CONTACTS_MAX),
]
ChatIds = Annotated[  # a text that is no id is answered like the id of a chat that does not exist
    list[str], documented(minItems=1, maxItems=limits.LEAVE_CHATS_MAX)
]
UserIds = Annotated[
    str,
    documented(
        minLength=1,
        description=f"1 to {limits.PROFILES_MAX} user ids, separated by commas",
        examples=["alice,bob"],
    ),
]
AvatarUrl = Annotated[
    str, documented(format="uri", pattern="^https://", maxLength=limits.AVATAR_URL_CHARS_MAX)
]
Metadata = Annotated[
    dict[str, Any],
    documented(description=f"Any JSON object of at most {limits.METADATA_BYTES_MAX} bytes"),
]
Email = Annotated[str, documented(format="email", maxLength=limits.EMAIL_CHARS_MAX)]
Name = Annotated[str, documented(minLength=1, maxLength=limits.NAME_CHARS_MAX)]
IssuerKeys = Annotated[
    list[dict[str, Any]],
    documented(
        minItems=1,
        maxItems=limits.ISSUER_KEYS_MAX,
        items={
            "type": "object",
            "required": ["kid", "kty"],
            "properties": {
                "kid": {"type": "string", "pattern": f"^({KID.pattern})$"},
                "kty": {"enum": ["OKP", "EC", "RSA"]},
                "alg": {"enum": list(ALGORITHMS)},
            },
        },
    ),
]
Content = Annotated[str, documented(maxLength=limits.CONTENT_BYTES_MAX)]
ContentType = Annotated[
    str, documented(pattern="^[!-.0-~][ -~]*/[ -~]+$", maxLength=limits.CONTENT_TYPE_CHARS_MAX)
]
Mentions = Annotated[
    list[Annotated[str, documented(pattern=rf"^(\*|{USER.pattern})$")]],
    documented(maxItems=limits.MENTIONS_MAX),
]
AttachmentIds = Annotated[
    list[Annotated[str, _matching(ATTACHMENT)]], documented(maxItems=ATTACHMENTS_MAX)
]
Time = Annotated[str, documented(format="date-time")]
SearchText = Annotated[str, documented(minLength=1, maxLength=QUERY_CHARS_MAX)]

Category = Annotated[str, _matching(CATEGORY)]
NotificationId = Annotated[str, _matching(NOTIFICATION)]
KeepDays = Annotated[int, msgspec.Meta(ge=1, le=limits.KEEP_DAYS_MAX)]
Description = Annotated[str, documented(maxLength=limits.DESCRIPTION_CHARS_MAX)]
SchemaVersion = Annotated[str, documented(minLength=1, maxLength=limits.SCHEMA_VERSION_CHARS_MAX)]
Sender = Annotated[str, documented(maxLength=limits.SENDER_CHARS_MAX)]
HostSystemId = Annotated[str, documented(maxLength=limits.HOST_SYSTEM_ID_CHARS_MAX)]
Label = Annotated[str, documented(maxLength=limits.LABEL_CHARS_MAX)]
Uids = Annotated[list[UserId], documented(minItems=1, maxItems=limits.BODY_PARTS_MAX)]
ReadIds = Annotated[list[str], documented(minItems=1, maxItems=limits.READ_IDS_MAX)]
ActionId = Annotated[str, _matching(ACTION)]
ActionLabel = Annotated[str, documented(minLength=1, maxLength=ACTION_LABEL_CHARS_MAX)]
CollapseKey = Annotated[str, documented(minLength=1, maxLength=COLLAPSE_KEY_CHARS_MAX)]
Link = Annotated[str, documented(format="uri", maxLength=limits.LINK_BYTES_MAX)]
Message = Annotated[
    dict[str, Any],
    documented(
        required=["title", "body"],
        properties={
            "title": {"type": "string", "minLength": 1, "maxLength": limits.TITLE_BYTES_MAX},
            "body": {"type": "string", "maxLength": limits.BODY_BYTES_MAX},
            "cta_uri": {
                "anyOf": [
                    {"type": "string", "format": "uri", "maxLength": limits.LINK_BYTES_MAX},
                    {"type": "null"},
                ]
            },
        },
    ),
]


def _path_matching(pattern: re.Pattern[str]) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^({pattern.pattern})$"}


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "action": _path_matching(ACTION),
    "aside_id": _path_matching(ASIDE),
    "attachment_id": _path_matching(ATTACHMENT),
    "chat_id": _path_matching(CHAT),
    "device": _path_matching(DEVICE),
    "emoji": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.EMOJI_BYTES_MAX,
        "pattern": r"^[^\s/]+$",
    },
    "inbox": _path_matching(INBOX),
    "job_id": _path_matching(JOB),
    "report_id": _path_matching(SESSION),
    "key_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    "link": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    "limit": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_MAX},
    "message_id": _path_matching(MESSAGE),
    "notification_id": _path_matching(NOTIFICATION),
    "scheduled_id": _path_matching(SCHEDULED),
    "signing_key_id": _path_matching(KEY_ID),
    "session_id": _path_matching(SESSION),
    "sequence": {"type": "integer", "minimum": 1, "maximum": SEQUENCE_MAX},
    "tenant": _path_matching(TENANT),
    "user_id": _path_matching(USER),
    "webhook_id": _path_matching(WEBHOOK),
    "delivery_id": _path_matching(DELIVERY),
}
"""The schema of each path parameter, for the OpenAPI document."""


def chat(chat_id: str) -> ChatId:
    """Parse the chat id in a URL path.

    Raises:
        ChatNotFound: The text is not a chat id.
    """
    if CHAT.fullmatch(chat_id) is None:
        raise ChatNotFound
    return ChatId(chat_id)


def sequence_in_path(sequence: str) -> int:
    """Parse the sequence in a URL path.

    Raises:
        MessageNotFound: The text is not a sequence that an entry can have.
    """
    if _SEQUENCE.fullmatch(sequence) is None or int(sequence) > SEQUENCE_MAX:
        raise MessageNotFound
    return int(sequence)


def own_message(message_id: str | None) -> tuple[ChatId, int] | None:
    """Parse the header with the id of a message of the caller; return None without the header.

    Raises:
        Invalid: The text is not the id of a message.
    """
    if message_id is None:
        return None
    found = locate(message_id)
    if found is None or found[1] > SEQUENCE_MAX:
        raise Invalid("Tidings-After: must be the id of a message")
    return found


def time(text: str, name: str) -> int:
    """Parse a time in the field `name` of a body.

    Raises:
        Invalid: The text is not an RFC 3339 time.
    """
    try:
        return from_rfc3339(text)
    except ValueError as error:
        raise Invalid(f"{name}: {error}", f"/{name}") from None


def limit_in_path(limit: str) -> int:
    """Parse the limit in a URL path.

    Raises:
        Invalid: The text is not a number, or the number is out of range.
    """
    if _LIMIT.fullmatch(limit) is None or int(limit) > limits.PAGE_MAX:
        raise Invalid(f"limit must be between 1 and {limits.PAGE_MAX}", "/limit")
    return int(limit)


def check_own_tenant(tenant: str, user: UserKey) -> None:
    """Raise TenantNotFound if the tenant in a path is not the tenant of the user."""
    if tenant_of(user) != tenant:
        raise TenantNotFound
