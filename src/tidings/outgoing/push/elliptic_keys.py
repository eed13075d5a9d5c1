# SPDX-License-Identifier: Apache-2.0
"""Makes, reads and writes keys of the curve P-256, which Web Push and APNs use."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tidings.ports.world import Chance

POINT_BYTES: Final = 65
"""Length of a public key: both coordinates, after a byte that says that they are not compressed."""
NUMBER_BYTES: Final = 32
_ORDER: Final = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551
_RANDOM_BYTES: Final = NUMBER_BYTES + 8
"""With eight bytes more than the number has, no number is noticeably more likely than others."""
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def new_private_key(chance: Chance) -> EllipticCurvePrivateKey:
    """Return a new key."""
    return derive_private_key(
        int.from_bytes(chance.token(_RANDOM_BYTES)) % (_ORDER - 1) + 1, SECP256R1()
    )


def read_private_key(number: bytes) -> EllipticCurvePrivateKey:
    """Return the private key with this number.

    Raises:
        ValueError: No key has this number.
    """
    if len(number) != NUMBER_BYTES:
        raise ValueError("a private key of P-256 has 32 bytes")
    return derive_private_key(int.from_bytes(number), SECP256R1())


def write_private_key(key: EllipticCurvePrivateKey) -> bytes:
    """Return the number of a private key."""
    return key.private_numbers().private_value.to_bytes(NUMBER_BYTES)


def read_public_key(point: bytes) -> EllipticCurvePublicKey:
    """Return the public key at this point of the curve.

    Raises:
        ValueError: The bytes are not a point of the curve, or it is compressed.
    """
    if len(point) != POINT_BYTES:
        raise ValueError("a public key of P-256 has 65 bytes")
    return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)


def write_public_key(key: EllipticCurvePublicKey) -> bytes:
    """Return the point of a public key, not compressed."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def to_base64url(content: bytes) -> str:
    """Return the content in base64url without padding."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """Return the content of a text in base64url, with or without padding.

    Raises:
        ValueError: The text is not base64url.
    """
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    bare = text.rstrip("=")
    try:
        return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise ValueError("not base64url") from None
