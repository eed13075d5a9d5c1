# SPDX-License-Identifier: Apache-2.0
"""Ports for master keys, wrapped data keys, and the deployment's epoch and sealed secrets."""

import hashlib
from typing import Final, Protocol

import msgspec

from tidings.model.ids import UserKey

MASTER_KEY_BYTES: Final = 32


class MasterKey(msgspec.Struct, frozen=True):
    """A key that wraps other keys and never seals content itself."""

    key_id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"MasterKey(key_id={self.key_id!r})"


def master_key(secret: bytes) -> MasterKey:
    """Return the master key with this secret; its id reveals nothing about the secret."""
    assert len(secret) == MASTER_KEY_BYTES, f"a master key has 32 bytes, got {len(secret)}"
    return MasterKey(hashlib.sha256(b"tidings master key\0" + secret).hexdigest()[:16], secret)


class MasterKeys(Protocol):
    """Master keys of this process."""

    @property
    def current(self) -> MasterKey | None:
        """The key that wraps everything new; None until the first key is made."""
        ...

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        """Keys that may still wrap something: not empty means that a rotation is unfinished."""
        ...

    async def ensure(self) -> None:
        """Make the first key, durably, if there is none. Only for an empty store.

        Raises:
            SetupError: The key cannot be stored.
        """
        ...

    async def begin_rotation(self) -> None:
        """Make a new current key, the old one becoming previous; durable when it returns.

        Nothing is wrapped by the new key before this returns. An unfinished rotation is resumed.

        Raises:
            SetupError: This kind of key source cannot make a key, or the key cannot be stored.
        """
        ...

    async def finish_rotation(self) -> None:
        """Remove the previous keys, durably where Tidings stores them itself.

        Raises:
            SetupError: They cannot be removed; the rotation stays unfinished.
        """
        ...


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One author's data key, wrapped by a master key."""

    author: UserKey
    generation: int
    """1, 2, ...: an author gets a new key only after the earlier keys were destroyed."""
    wrapped: bytes
    master_key_id: str
    is_ending: bool = False
    """Whether the key is about to be destroyed: it may not seal or open anything any more."""


class DataKeys(Protocol):
    """Wrapped data keys. Every write is durable when it returns."""

    async def current(self, author: UserKey) -> WrappedKey | None:
        """Return the author's key, of which there is at most one; None if there is none.

        It is returned even if it is about to be destroyed.
        """
        ...

    async def get(self, author: UserKey, generation: int) -> WrappedKey | None:
        """Return the author's key of this generation; None if it is destroyed or about to be."""
        ...

    async def add(self, key: WrappedKey) -> WrappedKey:
        """Store the key unless the author has a current key; return the author's current key.

        The generation of the argument is ignored: the key gets the next unused generation.
        """
        ...

    async def end(self, author: UserKey, now: int) -> int | None:
        """Begin to destroy the author's key, and note it in the revocation feed: one transaction.

        Returns the generation that is ending, even if it was ending before; None if there is no
        key. An engine that only one process uses may destroy the key at once.
        """
        ...

    async def destroy(self, author: UserKey, generation: int) -> None:
        """Destroy a key that is ending, beyond recovery from the live store.

        Any other key of the author remains. Safe to repeat.
        """
        ...

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        """Return some keys that another master key wraps; an empty list if none is left."""
        ...

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        """Replace the wrapping of keys that still exist; other keys are skipped."""
        ...


class Deployment(Protocol):
    """Values of the deployment as a whole."""

    @property
    def epoch(self) -> str:
        """The epoch in which sequences are valid; it changes only when a backup is restored."""
        ...

    async def sealed(self, name: str) -> tuple[str, bytes] | None:
        """Return the id of the master key that seals a deployment secret, and the sealed secret."""
        ...

    async def keep_first_sealed(
        self, name: str, master_key_id: str, sealed: bytes
    ) -> tuple[str, bytes]:
        """Store a deployment secret unless there is one; return the stored secret.

        All processes that call this at the same moment get the same secret.
        """
        ...

    async def keep_sealed(self, name: str, master_key_id: str, sealed: bytes) -> None:
        """Store a deployment secret, sealed by a master key; durable when it returns.

        Values replaced before then, here and by `rewrap`, are soon beyond recovery from the live
        store.
        """
        ...
