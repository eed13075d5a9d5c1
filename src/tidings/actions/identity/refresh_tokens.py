# SPDX-License-Identifier: Apache-2.0
"""Refresh tokens: their format, their stored digests, and the recovery of a lost token.

A token consists of 192 random bits and a tag that proves that this deployment issued it. A made-up
token for somebody else's session has a wrong tag and is simply refused. Without the tag it would
look like the reuse of a stolen token, which ends the session.

Only the client has the token; the store has its digest. For a client that loses the answer to a
refresh, the store also has the new token, encrypted with a key that is derived from the old token,
so that the store alone cannot decrypt it.

Also contains the keyed digests of codes, addresses and other login data.
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
REFRESH_TOKEN: Final = re.compile(rf"rt_({SESSION.pattern})_([A-Za-z0-9_-]{{43}})")
_SECRET_BYTES: Final = 32 - TAG_BYTES
_PURPOSE: Final = b"tidings: the refresh token after this one"


class LoginDigests:
    """Computes keyed digests of login data. A digest for one purpose is useless for another."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def code(self, tenant: str, phone_number: str, code: str) -> bytes:
        """Return the digest to store for a login code; it depends on tenant and phone number."""
        return self._digest("code", tenant, phone_number, code)

    def tag(self, session_id: str, secret: bytes) -> bytes:
        """Return the tag that proves that this deployment issued a refresh token."""
        return self._digest("refresh token", session_id, secret.hex())[:TAG_BYTES]

    def address(self, address: str | None) -> str | None:
        """Return the pseudonym of an address.

        It is stored with the codes that the address requests.
        """
        return None if address is None else self.name("asked by", address)

    def name(self, kind: str, subject: str) -> str:
        """Return a pseudonym that does not reveal the subject."""
        return self._digest("name", kind, subject).hex()[:_NAME_CHARS]

    def _digest(self, *parts: str) -> bytes:
        message = "".join(f"{len(part)}:{part}" for part in parts)
        return hmac.digest(self._key, message.encode(), hashlib.sha256)


def new_refresh_token(session_id: str, digests: LoginDigests, chance: Chance) -> str:
    """Return a new random token for the session."""
    secret = chance.token(_SECRET_BYTES)
    written = urlsafe_b64encode(secret + digests.tag(session_id, secret)).decode().rstrip("=")
    return f"rt_{session_id}_{written}"


def session_of(token: str, digests: LoginDigests) -> str | None:
    """Return the id of the session that a token names; None if this deployment did not issue the
    token."""
    match = REFRESH_TOKEN.fullmatch(token)
    if match is None:
        return None
    written = urlsafe_b64decode(match[2] + "=")
    secret, tag = written[:_SECRET_BYTES], written[_SECRET_BYTES:]
    return match[1] if hmac.compare_digest(tag, digests.tag(match[1], secret)) else None


def refresh_digest(token: str) -> bytes:
    """Return the digest to store for a token; tokens are random, so it needs no key or salt."""
    return hashlib.sha256(token.encode()).digest()


def seal_next(token: str, following: str, chance: Chance) -> bytes:
    """Encrypt the token `following`, so that only the holder of `token` can read it."""
    nonce = chance.token(NONCE_BYTES)
    return nonce + _cipher(token).encrypt(nonce, following.encode(), _PURPOSE)


def open_next(token: str, sealed: bytes) -> str | None:
    """Return the token after `token`; None if `sealed` is for another token or was changed."""
    try:
        return _cipher(token).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _PURPOSE).decode()
    except (InvalidTag, ValueError):
        return None


def _cipher(token: str) -> AESGCM:
    # No salt is needed: the token contains its session id and is otherwise random.
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=_PURPOSE).derive(token.encode()))
