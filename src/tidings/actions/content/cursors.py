# SPDX-License-Identifier: Apache-2.0
"""Cursors: encrypted positions in a list, each valid for one list and one user only."""

import binascii
from base64 import b64decode, urlsafe_b64encode
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.model.ids import UserKey
from tidings.model.refusals import CursorInvalid
from tidings.ports.world import Chance

CURSOR_CHARS_MAX: Final = 1_024
_NONCE_BYTES: Final = 12


class Cursors:
    """Cipher for cursors, with a key that only this deployment has."""

    def __init__(self, key: bytes, chance: Chance) -> None:
        self._cipher = AESGCM(key)
        self._chance = chance

    def seal(self, purpose: str, user: UserKey, payload: bytes) -> str:
        """Return a cursor with this payload, valid for this purpose and user only."""
        nonce = self._chance.token(_NONCE_BYTES)
        box = nonce + self._cipher.encrypt(nonce, payload, _bound_to(purpose, user))
        return urlsafe_b64encode(box).decode().rstrip("=")

    def open(self, purpose: str, user: UserKey, cursor: str) -> bytes:
        """Return the payload of a cursor.

        Raises:
            CursorInvalid: It was changed, or was not made here for this purpose and user.
        """
        if len(cursor) > CURSOR_CHARS_MAX:
            raise CursorInvalid
        try:
            box = b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            return self._cipher.decrypt(
                box[:_NONCE_BYTES], box[_NONCE_BYTES:], _bound_to(purpose, user)
            )
        except (InvalidTag, ValueError, binascii.Error):
            raise CursorInvalid from None


def _bound_to(purpose: str, user: UserKey) -> bytes:
    return f"{purpose}\0{user}".encode()
