# SPDX-License-Identifier: Apache-2.0
"""The hook that a tenant has called before each send: `before_send` in a tenant's settings."""

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from tidings.model.refusals import Invalid

TIMEOUT_MS_DEFAULT: Final = 500
TIMEOUT_MS_MAX: Final = 1_000
URL_CHARS_MAX: Final = 2_048
SECRET_VERSION_MAX: Final = 1_000_000
_FIELDS: Final = (
    "before_send may contain only url (a text), timeout_ms (an integer), on_failure"
    ' ("allow" or "refuse") and secret_version (an integer)'
)


class BeforeSend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hook that allows, declines or replaces each message before it is stored."""

    url: str
    timeout_ms: int = TIMEOUT_MS_DEFAULT
    on_failure: Literal["allow", "refuse"] = "allow"
    """What happens to a message about which the hook does not answer."""
    secret_version: int = 1
    """Which secret signs the requests. The one before it signs them too."""


def before_send_in(settings: Mapping[str, object]) -> BeforeSend | None:
    """Return the value of `before_send` in a tenant's settings; None if there is no hook.

    Raises:
        Invalid: `before_send` is malformed.
    """
    try:
        hook = msgspec.convert(settings.get("before_send"), BeforeSend | None)
    except msgspec.ValidationError:
        raise Invalid(_FIELDS, "/before_send") from None
    if hook is None:
        return None
    if not is_web_address(hook.url):
        raise Invalid(
            "url: must be an address such as https://example.com/hook", "/before_send/url"
        )
    for name, value, most in (
        ("timeout_ms", hook.timeout_ms, TIMEOUT_MS_MAX),
        ("secret_version", hook.secret_version, SECRET_VERSION_MAX),
    ):
        if not 1 <= value <= most:
            raise Invalid(f"{name}: must be between 1 and {most}", f"/before_send/{name}")
    return hook


def is_web_address(url: str) -> bool:
    """Return True if a text is an address to which the server can post."""
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_plain = parts.username is None and parts.password is None and not parts.fragment
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and is_plain
