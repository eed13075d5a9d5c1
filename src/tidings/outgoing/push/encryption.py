# SPDX-License-Identifier: Apache-2.0
"""Encrypts push messages for a browser, so that the push service between cannot read them.

This is RFC 8291 with the content encoding `aes128gcm` of RFC 8188. The browser made a key pair and
a secret when it subscribed; the server makes a key pair for each message. The body has one record.
"""

from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDH, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tidings.outgoing.push.elliptic_keys import POINT_BYTES, read_public_key, write_public_key

BODY_BYTES_MAX: Final = 4_096
"""Every push service takes bodies up to this length; a service may refuse longer ones."""
SALT_BYTES: Final = 16
AUTH_BYTES: Final = 16
_HEADER_BYTES: Final = SALT_BYTES + 4 + 1 + POINT_BYTES
_TAG_BYTES: Final = 16
_DELIMITER: Final = b"\x02"
"""The byte between the text and the padding of the last record."""
TEXT_BYTES_MAX: Final = BODY_BYTES_MAX - _HEADER_BYTES - _TAG_BYTES - len(_DELIMITER)
PADDING_STEP: Final = 512
"""Texts are padded to a multiple of this length: the service learns little about what they say."""


class SubscriptionKeys(msgspec.Struct, frozen=True):
    """The keys of a browser's subscription: `p256dh` and `auth`, decoded."""

    public: bytes
    auth: bytes

    def __repr__(self) -> str:
        return "SubscriptionKeys()"  # anybody who has them can write to the browser


def padded_length(length: int) -> int:
    """Return the length to which a text of this length is padded."""
    return min(-(-length // PADDING_STEP) * PADDING_STEP, TEXT_BYTES_MAX)


def encrypt(
    text: bytes,
    keys: SubscriptionKeys,
    *,
    sender: EllipticCurvePrivateKey,
    salt: bytes,
    padded_to: int,
) -> bytes:
    """Return the body of a push message with this text; only the browser with the keys can read it.

    `sender` and `salt` must be new for each message.

    Raises:
        ValueError: The public key of the subscription is not valid.
    """
    assert len(text) <= TEXT_BYTES_MAX, f"a push message has at most {TEXT_BYTES_MAX} bytes"
    public = write_public_key(sender.public_key())
    shared = sender.exchange(ECDH(), read_public_key(keys.public))
    secret = _derive(shared, keys.auth, b"WebPush: info\0" + keys.public + public, 32)
    key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
    padding = bytes(max(0, padded_to - len(text)))
    header = salt + BODY_BYTES_MAX.to_bytes(4) + len(public).to_bytes(1) + public
    return header + AESGCM(key).encrypt(nonce, text + _DELIMITER + padding, None)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)
