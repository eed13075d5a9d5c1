# SPDX-License-Identifier: Apache-2.0
"""Types of inboxes and notifications, and the checks of a tenant's posts.

A notification for listed users is stored once, with a copy for each user, which only refers to it.
A broadcast, for everyone, is one entry of the inbox's own log. A retraction is an entry of that log
too, so that a reader of the whole log knows everything that was retracted.
"""

import re
from typing import Final, Literal

import msgspec

from tidings.model import limits
from tidings.model.ids import DEVICE, USER
from tidings.model.notification_states import (
    BroadcastStates,
    Mark,
    NotificationStates,
    StateKind,
)
from tidings.model.outgoing_refusals import ActionNotFound
from tidings.model.preferences import CategoryRule, Preferences
from tidings.model.refusals import ContentTooLarge, Invalid, SchemaVersionConflict

INBOX: Final = USER
CATEGORY: Final = DEVICE
ACTION: Final = DEVICE
ACTIONS_MAX: Final = 2
ACTION_LABEL_CHARS_MAX: Final = 100
COLLAPSE_KEY_CHARS_MAX: Final = 200
ESCALATE_MINUTES_MAX: Final = 43_200
"""Maximum time from the delivery of a notification to an e-mail about it: 30 days."""
NOTIFICATION: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|b[1-9][0-9]{0,11}")
ANNOUNCEMENT: Final = re.compile(r"b([1-9][0-9]{0,11})")

CORE_FIELDS: Final = ("title", "body", "cta_uri")
"""Fields that every message may have; the inbox's schema defines all others."""
SCHEMES_REFUSED: Final = frozenset(
    {"about", "blob", "data", "file", "http", "javascript", "vbscript"}
)
_LINK: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.+)")
_LATE: Final = "late:"
"""Beginning of the key of a scheduled broadcast in the log. No digest has a colon."""

Json = dict[str, object]


class InboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of an inbox."""

    title: str
    description: str = ""
    schema_version: str = "1.0"
    categories: tuple[str, ...] | None = None
    """Allowed categories; None if any is allowed."""
    late_joiners: bool | None = None
    """Whether new users see earlier broadcasts; None for the tenant's default."""
    keep_days: int | None = None
    """Days for which notifications are kept; None for the tenant's default."""
    message_schema: dict[str, object] | None = None
    """JSON Schema of all fields of a message except title, body and link; None if there are no
    others."""
    category_rules: dict[str, CategoryRule] | None = None
    """Defaults of the users' preferences, by category."""
    has_preferences: bool = False
    """Whether some users have preferences of their own. The engine sets it: a new configuration
    does not change it."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification for listed users, or a scheduled broadcast, stored once."""

    tenant: str
    inbox: str
    notification_id: str
    """A ULID, so that ids sort by the time of posting."""
    category: str | None
    posted_at: int
    """Time of the post; of a scheduled notification the time of delivery, from which the id is
    made."""
    expires_at: int
    recipients: int
    box: bytes | None
    """The encrypted text; None after a retraction, and in a scheduled broadcast that is in the
    log."""
    box_key: int = 0
    collapse: str | None = None
    """Digest of the collapse key; None if there is no key."""
    everyone: bool = False
    """Whether this is a broadcast that was scheduled. It has a sequence from its time on."""
    log_head: int | None = None
    """Head of the log when the scheduled broadcast was due; its entry comes after this head."""
    sequence: int | None = None
    """The sequence of the scheduled broadcast in the log."""
    restored: bool = False
    """Whether the notification was due before its backup was restored. It is not delivered."""
    failed: bool = False
    """Whether its delivery at its time failed so often that it was given up."""

    @property
    def is_retracted(self) -> bool:
        """Whether the notification was retracted."""
        return self.box is None


class Broadcast(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of an inbox's log: a broadcast or a retraction."""

    tenant: str
    inbox: str
    sequence: int
    """Position in the inbox's log: 1, 2, 3 … without gaps."""
    kind: Literal["broadcast", "retraction"]
    posted_at: int
    """Time of the post, which is always later than that of the previous entry, even if a clock is
    wrong."""
    mark: str
    """Random text by which a writer recognises its own entry after an unknown outcome."""
    expires_at: int
    category: str | None = None
    late_joiners: bool = True
    recipients: int = 0
    """Approximate number of the tenant's users at the time of the post."""
    key: str | None = None
    """Digest of the Idempotency-Key of the post."""
    target: str | None = None
    """The retracted notification, if this is a retraction."""
    box: bytes | None = None
    box_key: int = 0
    collapse: str | None = None
    """Digest of the collapse key; None if there is no key."""

    @property
    def notification_id(self) -> str:
        """Public id of the notification, if this entry is a broadcast.

        A scheduled broadcast keeps the id with which its post was answered.
        """
        if self.key is not None and self.key.startswith(_LATE):
            return self.key.removeprefix(_LATE)
        return f"b{self.sequence}"


EMAIL_DECIDED: Final = 0


class Copy(NotificationStates, frozen=True, kw_only=True):
    """A user's reference to a notification, and its states for this user."""

    notification_id: str
    category: str | None
    received_at: int
    """Time when the copy was made."""
    expires_at: int
    collapse: str | None = None
    """Digest of the collapse key; None if there is no key."""
    escalated_at: int | None = None
    """When an e-mail about the copy was claimed, because it was still unread; None if none was, and
    `EMAIL_DECIDED` when its outcome is known."""


class ReadState(msgspec.Struct, frozen=True, kw_only=True):
    """A user's marks in an inbox, and the states of single broadcasts. Marks only move forward.

    The user's preferences are here too.
    """

    before: int = 0
    """Copies made up to this time are read."""
    announced: int = 0
    """Broadcasts up to this sequence are read."""
    singly: dict[int, int] = {}
    """Later broadcasts that the user marked as read one by one: the time of reading by sequence."""
    preferences: Preferences | None = None
    """The user's preferences, which are stored with the marks because they are read together; None
    for the defaults."""
    seen_before: int = 0
    seen_announced: int = 0
    archived_before: int = 0
    archived_announced: int = 0
    broadcasts: dict[int, BroadcastStates] = {}
    """States of single broadcasts, by sequence."""

    def mark(self, kind: StateKind) -> Mark:
        """Return up to where all notifications have a state."""
        match kind:
            case "seen":
                return Mark(self.seen_before, self.seen_announced)
            case "read":
                return Mark(self.before, self.announced)
            case "archived":
                return Mark(self.archived_before, self.archived_announced)


NOTHING_READ: Final = ReadState()


def broadcast_sequence(notification_id: str) -> int | None:
    """Return the sequence of the broadcast with this id; None if the id is of another kind, such
    as that of a scheduled broadcast."""
    match = ANNOUNCEMENT.fullmatch(notification_id)
    return int(match[1]) if match else None


def late_key(notification_id: str) -> str:
    """Return the key of the entry in the log that a scheduled broadcast becomes."""
    return _LATE + notification_id


class NotificationAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A button of a notification."""

    id: str
    label: str
    uri: str | None = None
    """Link that the button opens; None if it opens nothing."""


class PostOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a post that most posts do not have."""

    actions: tuple[NotificationAction, ...] = ()
    collapse_key: str | None = None
    """Of all notifications with the same key, lists show only the newest."""
    expires_at: int | None = None
    """Time from which the notification is not shown, if it is earlier than the inbox's own."""
    deliver_at: int | None = None
    """When the notification is to be delivered; None for now."""
    email_after_minutes: int | None = None
    """After which time users who have not read it get an e-mail; None for never."""


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's request to post a notification."""

    users: list[str] | None
    """User ids as the tenant gave them; None for everyone."""
    message: Json
    label: str | None = None
    """The tenant's name for the audience."""
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    """Id of the post in the tenant's own systems."""
    schema_version: str | None = None
    options: PostOptions = PostOptions()


class Text(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a notification that is stored encrypted."""

    message: Json
    sender: str | None = None
    host_system_id: str | None = None
    label: str | None = None
    actions: tuple[NotificationAction, ...] = ()
    collapse_key: str | None = None

    def check_action(self, action_id: str) -> None:
        """Refuse an action that the notification does not have."""
        if all(action.id != action_id for action in self.actions):
            raise ActionNotFound


class Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant's defaults, for inboxes that do not set these values themselves."""

    keep_days: int | None = None
    late_joiners: bool | None = None


def check_posting(posting: Posting, config: InboxConfig) -> Text:
    """Check a post and return its text. Its users and the inbox's schema are checked elsewhere."""
    if posting.schema_version not in (None, config.schema_version):
        raise SchemaVersionConflict(f"the inbox has version {config.schema_version}")
    if posting.category is not None:
        check_category(posting.category)
        if config.categories is not None and posting.category not in config.categories:
            raise Invalid("category: not a category of this inbox", "/category")
    for field, text, most in (
        ("sender", posting.sender, limits.SENDER_CHARS_MAX),
        ("host_system_id", posting.host_system_id, limits.HOST_SYSTEM_ID_CHARS_MAX),
        ("audience/label", posting.label, limits.LABEL_CHARS_MAX),
    ):
        if text is not None and len(text) > most:
            raise Invalid(f"{field}: must have at most {most} characters", f"/{field}")
    _check_message(posting.message)
    _check_options(posting.options)
    _check_escalation(posting)
    return Text(
        message=posting.message,
        sender=posting.sender,
        host_system_id=posting.host_system_id,
        label=posting.label,
        actions=posting.options.actions,
        collapse_key=posting.options.collapse_key,
    )


def check_category(category: str, pointer: str = "/category") -> None:
    """Refuse a malformed category."""
    if CATEGORY.fullmatch(category) is None:
        raise Invalid("category: must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -", pointer)


def extras_of(message: Json) -> Json:
    """Return all fields of a message except the core fields; the inbox's schema defines them."""
    return {name: value for name, value in message.items() if name not in CORE_FIELDS}


def check_open_json(value: object, pointer: str) -> None:
    """Refuse JSON that is nested too deeply for other programs to parse safely."""
    level = [value]
    for _ in range(limits.OPEN_JSON_DEPTH_MAX):
        level = [inner for outer in level for inner in _parts(outer)]
        if not level:
            return
    raise Invalid(f"must not be nested deeper than {limits.OPEN_JSON_DEPTH_MAX} levels", pointer)


def check_link(link: str, pointer: str = "/message/cta_uri") -> None:
    """Refuse a link that is not safe to follow on a user's device."""
    name = pointer.rpartition("/")[2]
    match = _LINK.fullmatch(link)
    if match is None or not link.isprintable() or " " in link:
        raise Invalid(f"{name}: must be an absolute URI without spaces or controls", pointer)
    scheme, rest = match[1].lower(), match[2]
    if scheme in SCHEMES_REFUSED or (scheme == "https" and not re.match("//[^/]", rest)):
        raise Invalid(f"{name}: must use https or a scheme of your own app", pointer)


def _check_options(options: PostOptions) -> None:
    key = options.collapse_key
    if key is not None and not (0 < len(key) <= COLLAPSE_KEY_CHARS_MAX and key.isprintable()):
        most = COLLAPSE_KEY_CHARS_MAX
        raise Invalid(f"collapse_key: must have 1 to {most} printable characters", "/collapse_key")
    if len(options.actions) > ACTIONS_MAX:
        raise Invalid(f"actions: must contain at most {ACTIONS_MAX} actions", "/actions")
    if len({action.id for action in options.actions}) < len(options.actions):
        raise Invalid("actions: must have different ids", "/actions")
    for index, action in enumerate(options.actions):
        _check_action(action, f"/actions/{index}")


def _check_escalation(posting: Posting) -> None:
    minutes = posting.options.email_after_minutes
    if minutes is None:
        return
    if posting.users is None:
        raise Invalid("escalate: can be used only for listed users, not for everyone", "/escalate")
    if not 1 <= minutes <= ESCALATE_MINUTES_MAX:
        most = ESCALATE_MINUTES_MAX
        pointer = "/escalate/email_after_minutes"
        raise Invalid(f"email_after_minutes: must be 1 to {most}", pointer)


def _check_action(action: NotificationAction, pointer: str) -> None:
    if ACTION.fullmatch(action.id) is None:
        allowed = "must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -"
        raise Invalid(f"id: {allowed}", f"{pointer}/id")
    if not action.label.strip() or len(action.label) > ACTION_LABEL_CHARS_MAX:
        most = ACTION_LABEL_CHARS_MAX
        raise Invalid(f"label: must have 1 to {most} characters", f"{pointer}/label")
    if action.uri is not None:
        if len(action.uri.encode()) > limits.LINK_BYTES_MAX:
            raise ContentTooLarge(f"uri: must have at most {limits.LINK_BYTES_MAX} bytes of UTF-8")
        check_link(action.uri, f"{pointer}/uri")


def _check_message(message: Json) -> None:
    title = _text(message, "title", limits.TITLE_BYTES_MAX)
    if not title.strip():
        raise Invalid("title: must not be empty", "/message/title")
    _text(message, "body", limits.BODY_BYTES_MAX)
    if message.get("cta_uri") is not None:
        check_link(_text(message, "cta_uri", limits.LINK_BYTES_MAX))
    extras = extras_of(message)
    check_open_json(extras, "/message")
    if len(msgspec.json.encode(extras)) > limits.EXTRAS_BYTES_MAX:
        most = limits.EXTRAS_BYTES_MAX
        raise ContentTooLarge(f"message: must have at most {most} bytes of further fields")


def _text(message: Json, field: str, most: int) -> str:
    text = message.get(field)
    if not isinstance(text, str):
        raise Invalid(f"{field}: must be a string", f"/message/{field}")
    if len(text.encode()) > most:
        raise ContentTooLarge(f"{field}: must have at most {most} bytes of UTF-8")
    return text


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
