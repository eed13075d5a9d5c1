# SPDX-License-Identifier: Apache-2.0
"""Parsers for addresses, networks, names, roles and certificates, and a reader of secret files."""

import ipaddress
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings import data_folder
from tidings.config.settings import ROLES
from tidings.keyrings import MAKES_A_GOOD_ONE, why_weak
from tidings.model.addresses import Networks
from tidings.model.emails import EMAIL
from tidings.model.setup_error import SetupError

PREFIX_CHARS_MAX: Final = 100
SECRET_CHARS_MIN: Final = 32

_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]{0,200})?")
_REGION: Final = re.compile(r"[a-z0-9-]{1,50}")
_SENDER: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9-]{1,11}")
FILE_SUFFIX: Final = "_file"
CREDENTIAL_CHARS_MAX: Final = 1_024


def url(*schemes: str) -> Callable[[str], str]:
    """Return a parser for an address with one of these schemes and a host."""

    def parse(text: str) -> str:
        try:
            parts = urlsplit(text)
            is_right = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_right = False
        if not is_right or not text.isascii() or not text.isprintable() or " " in text:
            # The error does not repeat the text, which may contain a password.
            raise ValueError(f"an address such as {schemes[0]}://host:port is expected")
        return text

    return parse


def mail_server(text: str) -> str:
    """Parse the address of a mail server, which has no user, password or path."""
    parts = urlsplit(url("smtp", "smtps")(text))
    if parts.username or parts.password:
        # The error does not repeat the text, which contains a password.
        raise ValueError(
            "the user and the password do not belong here: they have settings of their own"
        )
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{text!r} is not an address such as smtp://host:587")
    return text


def mail_address(text: str) -> str:
    """Parse an e-mail address."""
    if EMAIL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an e-mail address such as news@example.org")
    return text


def servers(text: str) -> str:
    """Parse one or more host:port, separated by commas."""
    found = [server.strip() for server in text.split(",") if server.strip()]
    if not found or not all(_SERVER.fullmatch(server) for server in found):
        raise ValueError(f"{text!r} is not host:port, or several with commas")
    return ",".join(found)


def networks(text: str) -> Networks:
    """Parse IP addresses and networks, separated by commas."""
    found = []
    for item in (item.strip() for item in text.split(",")):
        if not item:
            continue
        try:
            network = ipaddress.ip_network(item)
        except ValueError:
            raise ValueError(
                f"{item!r} is not an address or a network such as 10.0.0.0/8"
            ) from None
        if network.prefixlen == 0:
            raise ValueError(f"{item} includes every address: list those of the proxies")
        found.append(network)
    return tuple(found)


def region(text: str) -> str:
    """Parse the name of an AWS region."""
    if _REGION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a region such as eu-central-1")
    return text


def bucket(text: str) -> str:
    """Parse the address of a bucket, with or without a prefix for the keys in it."""
    if _BUCKET.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an address such as s3://bucket/prefix")
    return text


def prefix(more: str) -> Callable[[str], str]:
    """Return a parser for a name prefix of letters, digits and the characters in `more`."""
    allowed = re.compile(rf"[A-Za-z0-9{re.escape(more)}]{{1,{PREFIX_CHARS_MAX}}}")

    def parse(text: str) -> str:
        if allowed.fullmatch(text) is None:
            raise ValueError(
                f"{text!r} is not 1 to {PREFIX_CHARS_MAX} letters, digits and {' '.join(more)}"
            )
        return text

    return parse


def webhook_secret(text: str) -> str:
    """Parse a secret for signing webhooks."""
    if len(text) < SECRET_CHARS_MIN or not text.isascii() or not text.isprintable():
        raise ValueError(
            f"at least {SECRET_CHARS_MIN} printable ASCII characters are expected: "
            "openssl rand -base64 32 makes them"
        )
    if reason := why_weak(text):
        raise ValueError(f"the secret is weak: {reason}; {MAKES_A_GOOD_ONE}")
    return text


def sms_sender(text: str) -> str:
    """Parse the sender that a text message shows."""
    if _SENDER.fullmatch(text) is None:
        raise ValueError(
            f"{text!r} is not 1 to 11 letters, digits and -, at least one of them a letter"
        )
    return text


def roles(text: str) -> tuple[str, ...]:
    """Parse roles; return each once, in the order of `ROLES`."""
    named = {role.strip() for role in text.split(",") if role.strip()}
    unknown = sorted(named.difference(ROLES))
    if unknown or not named:
        what = f"{', '.join(unknown)!r} is not" if unknown else "at least one role is expected:"
        raise ValueError(f"{what} one of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in named)


def readable(text: str) -> Path:
    """Parse the path of a file that exists and can be read."""
    path = Path(text)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"{text} cannot be read: {error.strerror}") from None


def authorities(text: str) -> Path:
    """Parse the path of a PEM file with the certificates of authorities."""
    path = readable(text)
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ValueError(f"{text} does not contain certificates as PEM") from None
    return path


def visible_text(text: str) -> str:
    """Parse a user name or password for an engine."""
    if not 0 < len(text) <= CREDENTIAL_CHARS_MAX or not text.isprintable():
        # The error does not repeat the text, which may be a password.
        raise ValueError(f"1 to {CREDENTIAL_CHARS_MAX} printable characters are expected")
    return text


def secrets_in_files(
    given: Mapping[str, tuple[str, str]], mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    """Return the settings with each `<secret>_file` replaced by the content of that file."""
    found = dict(given)
    for name in [name for name in given if name.endswith(FILE_SUFFIX)]:
        source, text = found.pop(name)
        secret = name.removesuffix(FILE_SUFFIX)
        if secret in given:
            mistakes.append(f"{source}: {secret} is set as well ({given[secret][0]})")
            continue
        try:
            content = data_folder.read_private_file(Path(text))
        except SetupError as error:
            mistakes.append(f"{source}: {error}")
            continue
        if content is None:
            mistakes.append(f"{source}: {text} does not exist")
        else:
            found[secret] = (source, content.strip())
    return found
