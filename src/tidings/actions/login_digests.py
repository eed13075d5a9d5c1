# SPDX-License-Identifier: Apache-2.0
"""Digests under a secret of the deployment: of codes, tokens, and of whom budgets count for.

A code has a million values and a phone number not many more: a plain digest of one hides nothing
from whoever reads the store.
"""

import hashlib
import hmac
from typing import Final

TAG_BYTES: Final = 8

_NAME_CHARS: Final = 32


class LoginDigests:
    """Keyed digests; what they are for is part of them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def code(self, tenant: str, phone_number: str, code: str) -> bytes:
        """What is kept of a code: good for this number of this tenant only."""
        return self._digest("code", tenant, phone_number, code)

    def tag(self, session_id: str, secret: bytes) -> bytes:
        """What shows that a refresh token was made here, whether it still counts or not."""
        return self._digest("refresh token", session_id, secret.hex())[:TAG_BYTES]

    def address(self, address: str | None) -> str | None:
        """What is kept of the address that asked for a code; None if there is none."""
        return None if address is None else self.name("asked by", address)

    def name(self, kind: str, subject: str) -> str:
        """A name for somebody that says nothing about who it is."""
        return self._digest("name", kind, subject).hex()[:_NAME_CHARS]

    def _digest(self, *parts: str) -> bytes:
        told = "".join(f"{len(part)}:{part}" for part in parts)
        return hmac.digest(self._key, told.encode(), hashlib.sha256)
