# SPDX-License-Identifier: Apache-2.0
"""The credentials of a tenant for APNs, and the token that proves them to Apple."""

import re
from typing import Final

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tidings.caches import LruCache
from tidings.outgoing.push.fields import Fields
from tidings.ports.push import PushCredentials

TOKEN_SECONDS: Final = 40 * 60
"""How long a token is used. Apple accepts a token for an hour, and refuses one that replaces
another too soon."""
TOKEN_SECONDS_MIN: Final = 20 * 60
"""Apple refuses tokens that change more often than this."""
_TOKENS_MAX: Final = 1_000
_PEM: Final = re.compile(
    r"\s*-----BEGIN PRIVATE KEY-----[A-Za-z0-9+/=\s]{1,2000}-----END PRIVATE KEY-----\s*"
)
_ID: Final = re.compile(r"[A-Za-z0-9]{10}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9.-]{1,155}")
_FIELDS: Final = ("private_key", "key_id", "team_id", "topic", "sandbox")


class ApnsCredentials(msgspec.Struct, frozen=True):
    """The signing key of a tenant, with the ids that Apple gave to it and to the tenant's app."""

    private_key: str
    key_id: str
    team_id: str
    topic: str
    sandbox: bool = False

    def __repr__(self) -> str:
        return f"ApnsCredentials(key_id={self.key_id!r}, topic={self.topic!r})"


def read_apns_credentials(
    given: PushCredentials, stored: PushCredentials | None
) -> ApnsCredentials:
    """Return the credentials that a tenant gives; a private key that is left out is kept.

    Raises:
        Invalid: Something is missing or malformed.
    """
    fields = Fields("/apns", given, _FIELDS)
    expected = "the text of a .p8 file: a private key of P-256"
    pem = fields.optional_text("private_key", _PEM, expected)
    if pem is None and stored is not None:
        pem = str(stored["private_key"])
    try:
        key = load_pem_private_key((pem or "").encode(), password=None)
    except (ValueError, UnsupportedAlgorithm):
        raise fields.refusal("private_key", f"must be {expected}") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise fields.refusal("private_key", f"must be {expected}")
    assert pem is not None, "an empty text is no key"
    return ApnsCredentials(
        pem,
        fields.text("key_id", _ID, "the 10 characters of a key id"),
        fields.text("team_id", _ID, "the 10 characters of a team id"),
        fields.text("topic", _TOPIC, "the bundle id of an app"),
        fields.flag("sandbox"),
    )


class ApnsTokens:
    """Makes the tokens of tenants, and uses each of them for a while."""

    def __init__(self) -> None:
        self._tokens: LruCache[ApnsCredentials, tuple[int, str]] = LruCache(_TOKENS_MAX)

    def token(self, credentials: ApnsCredentials, seconds: int) -> str:
        """Return the token for a request at this time, in seconds since 1970."""
        found = self._tokens.get(credentials)
        if found is None or not 0 <= seconds - found[0] < TOKEN_SECONDS:
            signed = jwt.encode(
                {"iss": credentials.team_id, "iat": seconds},
                credentials.private_key,
                algorithm="ES256",
                headers={"kid": credentials.key_id},
            )
            found = seconds, signed
            self._tokens.put(credentials, found)
        return found[1]

    def drop(self, credentials: ApnsCredentials, seconds: int) -> None:
        """Forget a token that Apple calls expired, unless it is too new to be replaced."""
        found = self._tokens.get(credentials)
        if found is not None and not 0 <= seconds - found[0] < TOKEN_SECONDS_MIN:
            self._tokens.pop(credentials)
