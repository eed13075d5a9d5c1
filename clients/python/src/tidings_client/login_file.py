# SPDX-License-Identifier: Apache-2.0
"""Where a login is kept over a restart: a small file, whole or not there, for its owner only."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tidings_client.errors import StorageTrouble

_OWNER_ONLY: Final = 0o600


class SessionTokens(msgspec.Struct, frozen=True):
    """What the server gives to a session."""

    access_token: str
    refresh_token: str
    session_id: str
    user_id: str


class LoginFile:
    """Keeps the tokens of one session. Whoever can read the file is the user."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> SessionTokens | None:
        """What was kept last; None if nothing was.

        Raises:
            StorageTrouble: It cannot be read, or is something else.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SessionTokens)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StorageTrouble(f"{self._path}: {error}") from error

    def save(self, tokens: SessionTokens) -> None:
        """Keep these in place of what was kept, in one step; on disk when it returns.

        Raises:
            StorageTrouble: It cannot be written; what was kept before is still there.
        """
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.unlink(missing_ok=True)
            opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
            with os.fdopen(opened, "wb") as file:
                file.write(msgspec.json.encode(tokens))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
            self._sync_folder()
        except OSError as error:
            raise StorageTrouble(f"{self._path}: {error}") from error

    def remove(self) -> None:
        """Keep nothing any more."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
