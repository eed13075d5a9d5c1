# SPDX-License-Identifier: Apache-2.0
"""What settings about files may be: certificates, and secrets that stand in a file of their own."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidings.keyrings import private_file
from tidings.ports.secrets import KeyRefused

FILE_SUFFIX: Final = "_file"
CREDENTIAL_CHARS_MAX: Final = 1_024


def readable(text: str) -> Path:
    """A file that is there and can be read."""
    path = Path(text)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"{text} cannot be read: {error.strerror}") from None


def authorities(text: str) -> Path:
    """A file with certificates of authorities, as PEM."""
    path = readable(text)
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ValueError(f"{text} does not hold certificates as PEM") from None
    return path


def visible_text(text: str) -> str:
    """A name or a password for an engine."""
    if not 0 < len(text) <= CREDENTIAL_CHARS_MAX or not text.isprintable():
        # Not repeated: it may be a password.
        raise ValueError(f"1 to {CREDENTIAL_CHARS_MAX} printable characters are expected")
    return text


def secrets_in_files(
    given: Mapping[str, tuple[str, str]], mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    """What was given, with each `<secret>_file` replaced by the secret that stands in the file."""
    found = dict(given)
    for name in [name for name in given if name.endswith(FILE_SUFFIX)]:
        source, text = found.pop(name)
        secret = name.removesuffix(FILE_SUFFIX)
        if secret in given:
            mistakes.append(f"{source}: {secret} is set as well ({given[secret][0]})")
            continue
        try:
            content = private_file.read(Path(text))
        except KeyRefused as error:
            mistakes.append(f"{source}: {error}")
            continue
        if content is None:
            mistakes.append(f"{source}: {text} is not there")
        else:
            found[secret] = (source, content.strip())
    return found
