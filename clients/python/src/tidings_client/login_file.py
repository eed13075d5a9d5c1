# SPDX-License-Identifier: Apache-2.0
"""A small file that stores a login across restarts; it is replaced atomically."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tidings_client.errors import StorageTrouble

_OWNER_ONLY: Final = 0o600


class SessionTokens(msgspec.Struct, frozen=True):
    """The tokens and ids of a session, as the server returns them."""

    access_token: str
    refresh_token: str
    session_id: str
    user_id: str


class LoginFile:
    """File with the tokens of one session. Only its owner can read it.

    Anybody who has these tokens can act as the user.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> SessionTokens | None:
        """Return the saved tokens; None if there is no file.

        Raises:
            StorageTrouble: The file cannot be read, or does not contain tokens.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=SessionTokens)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StorageTrouble(f"{self._path}: {error}") from error

    def save(self, tokens: SessionTokens) -> None:
        """Replace the saved tokens atomically; they are on disk when this returns.

        Raises:
            StorageTrouble: The file cannot be written; the earlier tokens are still saved.
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
        """Delete the file."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
