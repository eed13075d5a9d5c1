# SPDX-License-Identifier: Apache-2.0
"""Posts of a tenant to an inbox, and the checks of their text, category, link and JSON."""

import re
from typing import Final

import msgspec

from tidings.model import limits
from tidings.model.notifications import CATEGORY, InboxConfig
from tidings.model.refusals import ContentTooLarge, Invalid, SchemaVersionConflict

CORE_FIELDS: Final = ("title", "body", "cta_uri")
"""Fields that every message may have; the inbox's schema defines all others."""
SCHEMES_REFUSED: Final = frozenset(
    {"about", "blob", "data", "file", "http", "javascript", "vbscript"}
)
_LINK: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.+)")

Json = dict[str, object]


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """A post of a tenant to users of an inbox."""

    users: list[str] | None
    """User ids as given; None for everyone."""
    message: Json
    label: str | None = None
    """The tenant's name for the audience."""
    category: str | None = None
    sender: str | None = None
    host_system_id: str | None = None
    """Id of the post in the tenant's own systems."""
    schema_version: str | None = None


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed part of a notification."""

    message: Json
    sender: str | None = None
    host_system_id: str | None = None
    label: str | None = None


class Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant's defaults for inboxes without a value of their own."""

    keep_days: int | None = None
    late_joiners: bool | None = None


def check_posting(posting: Posting, config: InboxConfig) -> Text:
    """Return the text of a valid post. Users and the inbox's schema are checked elsewhere."""
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
    return Text(
        message=posting.message,
        sender=posting.sender,
        host_system_id=posting.host_system_id,
        label=posting.label,
    )


def check_category(category: str, pointer: str = "/category") -> None:
    """Refuse a malformed category."""
    if CATEGORY.fullmatch(category) is None:
        raise Invalid("category: must be 1 to 64 characters of A-Z a-z 0-9 . _ @ + -", pointer)


def extras_of(message: Json) -> Json:
    """Return the fields of a message that the inbox's schema defines."""
    return {name: value for name, value in message.items() if name not in CORE_FIELDS}


def check_open_json(value: object, pointer: str) -> None:
    """Refuse JSON that is nested too deeply for other programs to parse safely."""
    level = [value]
    for _ in range(limits.OPEN_JSON_DEPTH_MAX):
        level = [inner for outer in level for inner in _parts(outer)]
        if not level:
            return
    raise Invalid(f"nested deeper than {limits.OPEN_JSON_DEPTH_MAX} levels", pointer)


def check_link(link: str) -> None:
    """Refuse a link that is not safe to follow on a user's device."""
    pointer = "/message/cta_uri"
    match = _LINK.fullmatch(link)
    if match is None or not link.isprintable() or " " in link:
        raise Invalid("cta_uri: must be an absolute URI without spaces or controls", pointer)
    scheme, rest = match[1].lower(), match[2]
    if scheme in SCHEMES_REFUSED or (scheme == "https" and not re.match("//[^/]", rest)):
        raise Invalid("cta_uri: must use https or a scheme of your own app", pointer)


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
