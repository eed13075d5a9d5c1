# SPDX-License-Identifier: Apache-2.0
"""Identifies a tenant towards the push services of browsers, with a signed token (RFC 8292)."""

from typing import Final
from urllib.parse import urlsplit

import jwt
import msgspec

from tidings.caches import LruCache
from tidings.outgoing.push.elliptic_keys import from_base64url, read_private_key

TOKEN_SECONDS: Final = 12 * 60 * 60
"""How long a token is valid; the standard allows a day."""
_REUSE_SECONDS: Final = TOKEN_SECONDS // 2
_TOKENS_MAX: Final = 1_000


class VapidKeys(msgspec.Struct, frozen=True):
    """The keys of a tenant in base64url, and the contact for a push service that has a problem."""

    public_key: str
    private_key: str
    subject: str | None = None

    def __repr__(self) -> str:
        return f"VapidKeys(public_key={self.public_key!r}, subject={self.subject!r})"


class VapidHeaders:
    """Makes the header `Authorization`; a token is used for all messages to a push service."""

    def __init__(self) -> None:
        self._tokens: LruCache[tuple[VapidKeys, str], tuple[int, str]] = LruCache(_TOKENS_MAX)

    def authorization(self, keys: VapidKeys, endpoint: str, seconds: int) -> str:
        """Return the header for a request to an endpoint, at this time in seconds since 1970."""
        parts = urlsplit(endpoint)
        origin = f"{parts.scheme}://{parts.netloc}"
        found = self._tokens.get((keys, origin))
        if found is None or not 0 <= seconds - found[0] < _REUSE_SECONDS:
            found = seconds, _signed(keys, origin, seconds)
            self._tokens.put((keys, origin), found)
        return f"vapid t={found[1]}, k={keys.public_key}"


def _signed(keys: VapidKeys, origin: str, seconds: int) -> str:
    claims: dict[str, object] = {"aud": origin, "exp": seconds + TOKEN_SECONDS}
    if keys.subject is not None:
        claims["sub"] = keys.subject
    key = read_private_key(from_base64url(keys.private_key))
    return jwt.encode(claims, key, algorithm="ES256")
