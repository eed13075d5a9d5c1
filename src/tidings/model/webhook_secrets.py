# SPDX-License-Identifier: Apache-2.0
"""Secrets of webhooks, in the form of the Standard Webhooks specification."""

import binascii
from base64 import b64decode, b64encode
from typing import Final

PREFIX: Final = "whsec_"


def shown_secret(key: bytes) -> str:
    """Return the secret with which a receiver checks what was signed with this key."""
    return f"{PREFIX}{b64encode(key).decode()}"


def signing_key(secret: str) -> bytes:
    """Return the key that a secret contains in base64 after its prefix. The bytes of any other
    text are the key themselves."""
    encoded = secret.removeprefix(PREFIX)
    if encoded != secret:
        try:
            return b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):  # ValueError: it has other letters than ASCII's
            pass
    return secret.encode()
