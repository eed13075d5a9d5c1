# SPDX-License-Identifier: Apache-2.0
"""Encrypts the bytes of files in frames, and the description of a file with its owner's key.

The bytes of a part are encrypted with AES-256-GCM in frames, each with a random nonce before it.
A frame is bound to its attachment, its part and its number, so frames cannot be moved or swapped.
The size of each part is known, so none can be cut off unnoticed.
"""

from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.content.wrapping import NONCE_BYTES
from tidings.model.attachments import FRAME_BYTES, File, Upload
from tidings.model.ids import UserKey
from tidings.ports.world import Chance

FILE_KEY_BYTES: Final = 32
FRAME_EXTRA_BYTES: Final = NONCE_BYTES + 16
SEALED_FRAME_BYTES: Final = FRAME_BYTES + FRAME_EXTRA_BYTES

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(File).decode


def sealed_size(size: int) -> int:
    """Return the number of bytes that a part of this size has when it is encrypted."""
    return size + -(-size // FRAME_BYTES) * FRAME_EXTRA_BYTES


class FileCipher:
    """Encrypts and decrypts the frames of one file."""

    def __init__(self, file: File, chance: Chance) -> None:
        self._attachment_id = file.attachment_id
        self._cipher = AESGCM(file.key)
        self._chance = chance

    def seal(self, part: str, number: int, data: bytes | memoryview) -> bytes:
        """Encrypt a frame; all frames of a part but the last have `FRAME_BYTES`."""
        nonce = self._chance.token(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, self._bound_to(part, number))

    def open_into(self, part: str, first: int, frames: bytes | memoryview, room: memoryview) -> int:
        """Decrypt consecutive frames of a part, from the frame with the number `first` on; return
        the number of bytes. The room has space for all of them.

        Raises:
            ValueError: The frames were changed.
        """
        view, filled = memoryview(frames), 0
        for number, start in enumerate(range(0, len(frames), SEALED_FRAME_BYTES), start=first):
            frame = view[start : start + SEALED_FRAME_BYTES]
            end = filled + len(frame) - FRAME_EXTRA_BYTES
            nonce, sealed = frame[:NONCE_BYTES], frame[NONCE_BYTES:]
            bound_to = self._bound_to(part, number)
            try:
                filled += self._cipher.decrypt_into(nonce, sealed, bound_to, room[filled:end])
            except (InvalidTag, ValueError):
                raise ValueError(f"frame {number} of part {part} was changed") from None
        return filled

    def _bound_to(self, part: str, number: int) -> bytes:
        return frame_bound_to(self._attachment_id, part, number)


def frame_bound_to(attachment_id: str, part: str, number: int) -> bytes:
    """Return what a frame is bound to."""
    return f"{attachment_id}\0{part}\0{number}".encode()


async def seal_file(vault: Vault, owner: UserKey, file: File) -> Sealed:
    """Encrypt the description of a file with the data key of its owner.

    Raises:
        StoreUnavailable: The data key cannot be loaded now.
    """
    return await vault.seal_text(owner, _bound_to(file.attachment_id), _encode(file).decode())


async def open_file(vault: Vault, upload: Upload) -> File | None:
    """Decrypt the description of a file; return None if it was erased.

    Raises:
        StoreUnavailable: The data key cannot be loaded now.
    """
    sealed = Sealed(upload.box, upload.box_key)
    text = await vault.open_text(upload.owner, _bound_to(upload.attachment_id), sealed)
    return None if text is None else _decode(text)


def _bound_to(attachment_id: str) -> str:
    return f"upload\0{attachment_id}"
