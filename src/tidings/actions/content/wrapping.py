# SPDX-License-Identifier: Apache-2.0
"""Encryption of small secrets with the master key, and encrypted cursors."""

import asyncio
import binascii
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.model.ids import UserKey
from tidings.model.refusals import CursorInvalid
from tidings.ports.secrets import MasterKey, MasterKeys
from tidings.ports.world import Chance

CURSOR_CHARS_MAX: Final = 1_024
NONCE_BYTES: Final = 12

T = TypeVar("T")


class Cursors:
    """Encrypts and decrypts cursors, with a key that only this deployment has."""

    def __init__(self, key: bytes, chance: Chance) -> None:
        self._cipher = AESGCM(key)
        self._chance = chance

    def seal(self, purpose: str, user: UserKey, payload: bytes) -> str:
        """Return a cursor with this payload, valid for this purpose and user only."""
        nonce = self._chance.token(NONCE_BYTES)
        box = nonce + self._cipher.encrypt(nonce, payload, _bound_to(purpose, user))
        return urlsafe_b64encode(box).decode().rstrip("=")

    def open(
        self, purpose: str, user: UserKey, cursor: str, *, chars_max: int = CURSOR_CHARS_MAX
    ) -> bytes:
        """Return the payload of a cursor.

        Raises:
            CursorInvalid: The cursor was changed, or this deployment did not make it for this
                purpose and user.
        """
        if len(cursor) > chars_max:
            raise CursorInvalid
        try:
            box = b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            return self._cipher.decrypt(
                box[:NONCE_BYTES], box[NONCE_BYTES:], _bound_to(purpose, user)
            )
        except (InvalidTag, ValueError, binascii.Error):
            raise CursorInvalid from None

    def position(self, purpose: str, user: UserKey, cursor: str | None) -> str | None:
        """Return the position in a list, which is stored in the cursor; None without a cursor.

        Raises:
            CursorInvalid: `open` refuses the cursor.
        """
        return None if cursor is None else self.open(purpose, user, cursor).decode()

    def after(self, purpose: str, user: UserKey, position: str | None) -> str | None:
        """Return the cursor for the part of a list after a position; None if nothing follows."""
        return None if position is None else self.seal(purpose, user, position.encode())


def _bound_to(purpose: str, user: UserKey) -> bytes:
    return f"{purpose}\0{user}".encode()


class CannotUnwrap(Exception):
    """No available master key opens the secret, or the secret was changed."""


class Wrapping:
    """Encrypts secrets with the current master key, and decrypts them with any available key.

    `purpose` names the use and the owner of a secret. A secret that was swapped with another cannot
    be decrypted, because the purpose differs.
    """

    def __init__(self, master: MasterKeys, chance: Chance) -> None:
        self._master = master
        self._chance = chance
        self._under_way: set[asyncio.Future[None]] = set()

    @property
    def key_id(self) -> str:
        """Id of the current master key, which wraps new secrets."""
        return self._current().key_id

    def holds(self, master_key_id: str) -> bool:
        """Return True if the master key with this id is available."""
        return any(key.key_id == master_key_id for key in self._all())

    def wrap(self, purpose: str, secret: bytes) -> tuple[str, bytes]:
        """Return the id of the current master key, and the secret wrapped by it."""
        current = self._current()
        nonce = self._chance.token(NONCE_BYTES)
        sealed = AESGCM(current.secret).encrypt(nonce, secret, purpose.encode())
        return current.key_id, nonce + sealed

    def unwrap(self, purpose: str, master_key_id: str, wrapped: bytes) -> bytes:
        """Return the secret that was wrapped for this purpose.

        Raises:
            CannotUnwrap: No master key with that id is available, or the secret was changed.
        """
        for key in self._all():
            if key.key_id == master_key_id:
                return _open(key, purpose, wrapped)
        raise CannotUnwrap(f"it is wrapped by master key {master_key_id}, which is not available")

    async def keep(
        self, purpose: str, secret: bytes, store: Callable[[str, bytes], Awaitable[T]]
    ) -> T:
        """Wrap a secret, call `store` with the result, and return what `store` returns.

        A rotation that begins meanwhile waits until the secret is stored.
        """
        done = asyncio.get_running_loop().create_future()
        self._under_way.add(done)
        try:
            return await store(*self.wrap(purpose, secret))
        finally:
            self._under_way.discard(done)
            done.set_result(None)

    async def settled(self) -> None:
        """Wait for every write by `keep` that is in progress when this is called."""
        if self._under_way:
            await asyncio.wait(list(self._under_way))

    def _all(self) -> tuple[MasterKey, ...]:
        return (self._current(), *self._master.previous)

    def _current(self) -> MasterKey:
        current = self._master.current
        assert current is not None, "the vault has not been started"
        return current


def _open(key: MasterKey, purpose: str, wrapped: bytes) -> bytes:
    try:
        return AESGCM(key.secret).decrypt(
            wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], purpose.encode()
        )
    except (InvalidTag, ValueError):
        raise CannotUnwrap("it was changed after it was stored") from None


def data_key_purpose(author: str) -> str:
    """Return the purpose that an author's data key is bound to."""
    return f"data key\0{author}"


def signing_key_purpose(key_id: str) -> str:
    """Return the purpose that the private half of a signing key is bound to."""
    return f"signing key\0{key_id}"


def deployment_secret_purpose(name: str) -> str:
    """Return the purpose that a secret of the deployment is bound to."""
    return f"deployment\0{name}"
