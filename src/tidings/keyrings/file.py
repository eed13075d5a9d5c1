# SPDX-License-Identifier: Apache-2.0
"""Keyrings of master keys: in the file `master.key` beside the data, or from the environment.

There is one key, or two while a rotation is unfinished. The database file alone, or a backup
without the key file, is ciphertext. A reader of the whole folder can read the content.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidings.keyrings import private_file
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import (
    MASTER_KEY_BYTES,
    MasterKey,
    MasterKeys,
    master_key,
)
from tidings.ports.world import Chance

FILE_NAME: Final = "master.key"
KEYS_MAX: Final = 2
_HEADING: Final = (
    "# Tidings master key: without it the content in this folder cannot be read.\n"
    "# Keep a copy apart from the data. The first line is the key in use; a second one is the\n"
    "# key before it, while a rotation is unfinished.\n"
)


class FileKeyring:
    """Master keys in the key file of one folder."""

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
            private_file.make(self.path, text)
            self._keys = _read(self.path)  # another process may have been first

    async def begin_rotation(self) -> None:
        assert self._keys, "there is no key to rotate"
        if not self.previous:
            self._replace((self._new_key(), self._keys[0]))

    async def finish_rotation(self) -> None:
        self._replace(self._keys[:1])

    def _replace(self, keys: tuple[MasterKey, ...]) -> None:
        # Not in a thread: it takes a few milliseconds once a year, and the write of a cancelled
        # rotation cannot overwrite a later one.
        private_file.replace(self.path, _to_text(keys))
        self._keys = keys

    def _new_key(self) -> MasterKey:
        return master_key(self._chance.token(MASTER_KEY_BYTES))


def _to_text(keys: Sequence[MasterKey]) -> str:
    return _HEADING + "".join(f"{b64encode(key.secret).decode()}\n" for key in keys)


def _read(path: Path) -> tuple[MasterKey, ...]:
    text = private_file.read(path)
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
    """Master keys from the configuration."""

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
