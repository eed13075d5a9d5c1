# SPDX-License-Identifier: Apache-2.0
"""Refresh tokens: what they look like, what is kept of them, and how a lost one is had again.

A token is 192 random bits and a tag that shows that it was made here: who makes one up for a
session of somebody else is told no, and does not pass for a thief whose theft ends the session.

A token is known to the client alone; kept is its digest. For who loses the answer to a rotation
the new token is kept besides, sealed under a key that is derived from the old one: the store by
itself opens nothing.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tidings.actions.content.wrapping import NONCE_BYTES
from tidings.model.ids import SESSION
from tidings.ports.world import Chance

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


REFRESH_TOKEN: Final = re.compile(rf"rt_({SESSION.pattern})_([A-Za-z0-9_-]{{43}})")

_SECRET_BYTES: Final = 32 - TAG_BYTES
_PURPOSE: Final = b"tidings: the refresh token after this one"


def new_refresh_token(session_id: str, digests: LoginDigests, chance: Chance) -> str:
    """A token of the session that nobody has had before."""
    secret = chance.token(_SECRET_BYTES)
    written = urlsafe_b64encode(secret + digests.tag(session_id, secret)).decode().rstrip("=")
    return f"rt_{session_id}_{written}"


def session_of(token: str, digests: LoginDigests) -> str | None:
    """The session a token is of; None if it was never one of ours."""
    match = REFRESH_TOKEN.fullmatch(token)
    if match is None:
        return None
    written = urlsafe_b64decode(match[2] + "=")
    secret, tag = written[:_SECRET_BYTES], written[_SECRET_BYTES:]
    return match[1] if hmac.compare_digest(tag, digests.tag(match[1], secret)) else None


def refresh_digest(token: str) -> bytes:
    """What is kept of a token. Nobody guesses one, so a plain digest does."""
    return hashlib.sha256(token.encode()).digest()


def seal_next(token: str, following: str, chance: Chance) -> bytes:
    """The token that follows, for whoever has the one before it."""
    nonce = chance.token(NONCE_BYTES)
    return nonce + _cipher(token).encrypt(nonce, following.encode(), _PURPOSE)


def open_next(token: str, sealed: bytes) -> str | None:
    """The token that follows this one; None if it was sealed for another one, or changed."""
    try:
        return _cipher(token).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _PURPOSE).decode()
    except (InvalidTag, ValueError):
        return None


def _cipher(token: str) -> AESGCM:
    # The token names its session and is all but random: no salt is needed.
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(token.encode()))
