# SPDX-License-Identifier: Apache-2.0
"""Digests of sends, by which a repeat is told from another message under the same id.

They are keyed with a secret that comes from the author's data key, so they go with the author: once
that key is destroyed, nobody can confirm a guess at what was sent, whatever keys they hold. What
was sent under a key that is gone can be compared with nothing any more, and counts as the same.
"""

from hashlib import blake2b
from typing import Final

_DIGEST_BYTES: Final = 16
_GENERATION_BYTES: Final = 4
_PURPOSE: Final = b"tidings sends"


def digest_key(data_key: bytes) -> bytes:
    """The secret for an author's digests."""
    return blake2b(key=data_key, digest_size=32, person=_PURPOSE).digest()


def send_digest(key: bytes, generation: int, told: str) -> bytes:
    """A keyed digest, and which of the author's keys it is of."""
    digest = blake2b(told.encode(), key=key, digest_size=_DIGEST_BYTES).digest()
    return digest + generation.to_bytes(_GENERATION_BYTES, "big")


def is_same_send(digest: bytes, kept: bytes) -> bool:
    """Whether a send is a repeat of the one that was kept under its id, as far as can be told."""
    return digest == kept or digest[_DIGEST_BYTES:] != kept[_DIGEST_BYTES:]
