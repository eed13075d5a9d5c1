# SPDX-License-Identifier: Apache-2.0
"""The cipher of processes that a test starts: all of them are of one deployment."""

import secrets
from typing import Final

from tidings.wire.events import SALT_BYTES, MessageCipher

_SECRET: Final = secrets.token_bytes(32)


def a_cipher(secret: bytes = _SECRET) -> MessageCipher:
    """As one process has it; with another secret it is a stranger's."""
    return MessageCipher(secret, secrets.token_bytes(SALT_BYTES))
