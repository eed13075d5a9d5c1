# SPDX-License-Identifier: Apache-2.0
"""Read and write master keys, in a file or from the environment, and the root key in its file.

There is one master key, or two while a rotation is unfinished. Without the key file, the database
file or a backup cannot be decrypted. Anybody who can read the whole folder can read the content.
"""

import binascii
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from tidings import data_folder
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import (
    MASTER_KEY_BYTES,
    MasterKey,
    MasterKeys,
    master_key,
)
from tidings.ports.world import Chance

CHARS_MIN: Final = 32
VARIETY_MIN: Final = 10
TRIPLES_MIN: Final = 0.75
"""Minimum share of distinct triples of characters in a secret; random hex has 0.99."""
STEPS_MAX: Final = 0.5
"""Maximum share of characters that are equal or next to their predecessor in the alphabet; random
hex has 0.13."""

_PLACEHOLDER: Final = re.compile(
    "change[-_]?me|password|passwort|placeholder|example|insecure|default|qwerty", re.IGNORECASE
)

MAKES_A_GOOD_ONE: Final = "openssl rand -base64 32 makes a good one"

FILE_NAME: Final = "master.key"
KEYS_MAX: Final = 2
_HEADING: Final = (
    "# Tidings master key: without it the content in this folder cannot be read.\n"
    "# Keep a copy apart from the data. The first line is the key in use; a second one is the\n"
    "# key before it, while a rotation is unfinished.\n"
)
ROOT_FILE_NAME: Final = "root.key"
_SECRET_BYTES: Final = 32


def why_weak(secret: str) -> str | None:
    """Return why a secret is easy to guess, or None. The text does not contain the secret."""
    if len(secret) < CHARS_MIN:
        return f"it has {len(secret)} characters, fewer than {CHARS_MIN}"
    if len(set(secret)) < VARIETY_MIN:
        return f"it is made of fewer than {VARIETY_MIN} different characters"
    triples = [secret[at : at + 3] for at in range(len(secret) - 2)]
    is_repeated = secret in (secret + secret)[1:-1]
    if is_repeated or len(set(triples)) < TRIPLES_MIN * len(triples):
        return "it is a shorter text repeated"
    pairs = list(pairwise(secret))
    steps = sum(abs(ord(after) - ord(before)) <= 1 for before, after in pairs)
    if steps > STEPS_MAX * len(pairs):
        return "its characters follow each other in the alphabet"
    if _PLACEHOLDER.search(secret):
        return "it contains a word from examples, such as password or change-me"
    return None


def read_root_key(folder: Path) -> str | None:
    """Return the root key stored in the folder; None if there is none.

    Raises:
        SetupError: Others may read the file, it is not a single line, or the key is weak.
    """
    path = folder / ROOT_FILE_NAME
    text = data_folder.read_private_file(path)
    if text is None:
        return None
    key = text.strip()
    if not key or len(key.split()) != 1:
        raise SetupError(f"{path} does not contain exactly one key on one line")
    if reason := why_weak(key):
        raise SetupError(
            f"the root key in {path} is weak: {reason}; {MAKES_A_GOOD_ONE}, and if the file is "
            "deleted, the next start creates a key"
        )
    return key


def ensure_root_key(folder: Path, chance: Chance) -> str:
    """Return the root key stored in the folder; create a key if there is none.

    Raises:
        SetupError: The file cannot be written, or `read_root_key` refuses it.
    """
    key = read_root_key(folder)
    if key is None:
        fresh = urlsafe_b64encode(chance.token(_SECRET_BYTES)).decode().rstrip("=")
        data_folder.create_private_file(folder / ROOT_FILE_NAME, f"{fresh}\n")
        key = read_root_key(folder)
        assert key is not None, "the key file was just written"
    return key


class FileKeyring:
    """Reads and writes master keys in the key file of a folder."""

    def __init__(self, folder: Path, chance: Chance) -> None:
        """Read the file, if it exists.

        Raises:
            SetupError: Others may read the file, or it does not contain keys.
        """
        self.path = folder / FILE_NAME
        self._chance = chance
        self._keys = _read(self.path)

    @property
    def current(self) -> MasterKey | None:
        return self._keys[0] if self._keys else None

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        return self._keys[1:]

    async def ensure(self) -> None:
        if not self._keys:
            text = _to_text([self._new_key()])
            data_folder.create_private_file(self.path, text)
            self._keys = _read(self.path)  # another process may have been first

    async def begin_rotation(self) -> None:
        assert self._keys, "there is no key to rotate"
        if not self.previous:
            self._replace((self._new_key(), self._keys[0]))

    async def finish_rotation(self) -> None:
        self._replace(self._keys[:1])

    def _replace(self, keys: tuple[MasterKey, ...]) -> None:
        # This does not run in a thread, so that the write of a cancelled rotation cannot overwrite
        # a later write. It blocks the event loop for a few milliseconds once a year.
        data_folder.replace_private_file(self.path, _to_text(keys))
        self._keys = keys

    def _new_key(self) -> MasterKey:
        return master_key(self._chance.token(MASTER_KEY_BYTES))


def _to_text(keys: Sequence[MasterKey]) -> str:
    return _HEADING + "".join(f"{b64encode(key.secret).decode()}\n" for key in keys)


def _read(path: Path) -> tuple[MasterKey, ...]:
    text = data_folder.read_private_file(path)
    if text is None:
        return ()
    lines = [line.strip() for line in text.splitlines()]
    secrets = [_secret(path, line) for line in lines if line and not line.startswith("#")]
    if not 1 <= len(secrets) <= KEYS_MAX:
        raise SetupError(
            f"{path} contains {len(secrets)} keys, expected one, or two during a rotation"
        )
    return tuple(master_key(secret) for secret in secrets)


def _secret(path: Path, line: str) -> bytes:
    try:
        secret = b64decode(line, validate=True)
    except binascii.Error:
        secret = b""
    if len(secret) != MASTER_KEY_BYTES:
        raise SetupError(f"{path} contains a line that is not a key of 32 bytes in base64")
    return secret


_conforms: type[MasterKeys] = FileKeyring


class EnvironmentKeyring:
    """Returns master keys from the configuration, and stores none."""

    def __init__(self, current: bytes, previous: bytes | None) -> None:
        self._current = master_key(current)
        self._given = (master_key(previous),) if previous is not None else ()
        self._previous = self._given

    @property
    def current(self) -> MasterKey:
        return self._current

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        return self._previous

    async def ensure(self) -> None:
        pass

    async def begin_rotation(self) -> None:
        if not self._given:
            raise SetupError(
                "the master key comes from the environment, so the new key has to come from there: "
                "set TIDINGS_MASTER_KEY to the new key and TIDINGS_MASTER_KEY_PREVIOUS to the "
                "current key, restart, and rotate again"
            )

    async def finish_rotation(self) -> None:
        self._previous = ()


_environment_conforms: type[MasterKeys] = EnvironmentKeyring
