# SPDX-License-Identifier: Apache-2.0
"""What a tenant may post to an inbox, and say about one."""

import re
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.notifications import CATEGORY, InboxConfig
from tidings.model.refusals import ContentTooLarge, Invalid, SchemaVersionConflict

CORE_FIELDS: Final = ("title", "body", "cta_uri")
"""What every message may hold; all else is up to the inbox's schema."""
SCHEMES_REFUSED: Final = frozenset(
    {"about", "blob", "data", "file", "http", "javascript", "vbscript"}
)
_LINK: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.+)")

Json = dict[str, object]


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant wants to tell its users."""

    users: list[str] | None
    """Their ids as they were given; None: everyone."""
    message: Json
    label: str | None = None
    """What the tenant calls the audience."""
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    """What the tenant's own systems know it by."""
    schema_version: str | None = None


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """What is sealed of a notification."""

    message: Json
    sender: str | None = None
    host_system_id: str | None = None
    label: str | None = None


class Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tenant says for all its inboxes that do not say it themselves."""

    keep_days: int | None = None
    late_joiners: bool | None = None


def check_posting(posting: Posting, config: InboxConfig) -> Text:
    """The text of what is posted. Its users and the schema of the inbox are looked at elsewhere."""
    if posting.schema_version not in (None, config.schema_version):
        raise SchemaVersionConflict(f"the inbox has version {config.schema_version}")
    if posting.category is not None:
        check_category(posting.category)
        if config.categories is not None and posting.category not in config.categories:
            raise Invalid("category: not one of the inbox's", "/category")
    for field, text, most in (
        ("sender", posting.sender, limits.SENDER_CHARS_MAX),
        ("host_system_id", posting.host_system_id, limits.HOST_SYSTEM_ID_CHARS_MAX),
        ("audience/label", posting.label, limits.LABEL_CHARS_MAX),
    ):
        if text is not None and len(text) > most:
            raise Invalid(f"{field}: at most {most} characters", f"/{field}")
    _check_message(posting.message)
    return Text(
        message=posting.message,
        sender=posting.sender,
        host_system_id=posting.host_system_id,
        label=posting.label,
    )


def check_category(category: str, pointer: str = "/category") -> None:
    """Refuse what cannot be a category."""
    if CATEGORY.fullmatch(category) is None:
        raise Invalid("category: 1 to 64 of A-Z a-z 0-9 . _ @ + -", pointer)


def extras_of(message: Json) -> Json:
    """What a message holds besides what every message may."""
    return {name: value for name, value in message.items() if name not in CORE_FIELDS}


def check_open_json(value: object, pointer: str) -> None:
    """Refuse JSON that is nested so deeply that whoever handles it would stumble."""
    level = [value]
    for _ in range(limits.OPEN_JSON_DEPTH_MAX):
        level = [inner for one in level for inner in _parts(one)]
        if not level:
            return
    raise Invalid(f"nested deeper than {limits.OPEN_JSON_DEPTH_MAX} levels", pointer)


def check_link(link: str) -> None:
    """Refuse a link that a user's device had better not follow."""
    pointer = "/message/cta_uri"
    match = _LINK.fullmatch(link)
    if match is None or not link.isprintable() or " " in link:
        raise Invalid("cta_uri: an absolute URI without spaces or control characters", pointer)
    scheme, rest = match[1].lower(), match[2]
    if scheme in SCHEMES_REFUSED or (scheme == "https" and not re.match("//[^/]", rest)):
        raise Invalid("cta_uri: https or a scheme of your own app's", pointer)


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
        raise ContentTooLarge(f"message: at most {limits.EXTRAS_BYTES_MAX} bytes of own fields")


def _text(message: Json, field: str, most: int) -> str:
    text = message.get(field)
    if not isinstance(text, str):
        raise Invalid(f"{field}: a text is needed", f"/message/{field}")
    if len(text.encode()) > most:
        raise ContentTooLarge(f"{field}: at most {most} bytes of UTF-8")
    return text


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
