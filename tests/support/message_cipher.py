# SPDX-License-Identifier: Apache-2.0
"""The cipher of processes in tests, which all belong to one deployment."""

import secrets
from typing import Final

from tidings.wire.events import SALT_BYTES, MessageCipher

_SECRET: Final = secrets.token_bytes(32)


def a_cipher(secret: bytes = _SECRET) -> MessageCipher:
    """Return the cipher of one process; another secret makes it that of another deployment."""
    return MessageCipher(secret, secrets.token_bytes(SALT_BYTES))
