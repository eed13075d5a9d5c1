# SPDX-License-Identifier: Apache-2.0
"""The root key in `root.key` beside the data, made on the first start."""

from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final

from tidings.keyrings import private_file
from tidings.keyrings.strength import MAKES_A_GOOD_ONE, why_weak
from tidings.ports.secrets import KeyRefused
from tidings.ports.world import Chance

FILE_NAME: Final = "root.key"
_SECRET_BYTES: Final = 32


def read_root_key(folder: Path) -> str | None:
    """The root key kept in the folder; None if there is none.

    Raises:
        KeyRefused: Its file is readable by others, empty, or not one line, or the key is weak.
    """
    path = folder / FILE_NAME
    text = private_file.read(path)
    if text is None:
        return None
    key = text.strip()
    if not key or len(key.split()) != 1:
        raise KeyRefused(f"{path} does not hold one key on one line")
    if reason := why_weak(key):
        raise KeyRefused(
            f"the root key in {path} is weak: {reason}; {MAKES_A_GOOD_ONE}, and without the file "
            "the next start makes one"
        )
    return key


def ensure_root_key(folder: Path, chance: Chance) -> str:
    """The root key kept in the folder; it is made if there is none.

    Raises:
        KeyRefused: As in `read_root_key`, or it cannot be written.
    """
    key = read_root_key(folder)
    if key is None:
        fresh = urlsafe_b64encode(chance.token(_SECRET_BYTES)).decode().rstrip("=")
        private_file.make(folder / FILE_NAME, f"{fresh}\n")
        key = read_root_key(folder)
        assert key is not None, "a key file that was made is there"
    return key
