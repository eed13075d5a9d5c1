# SPDX-License-Identifier: Apache-2.0
"""Ports for master keys, wrapped data keys, and the epoch and secrets of the deployment."""

import hashlib
from typing import Final, Protocol

import msgspec

from tidings.model.ids import UserKey

MASTER_KEY_BYTES: Final = 32


class MasterKey(msgspec.Struct, frozen=True):
    """A key that wraps other keys and never encrypts content itself."""

    key_id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"MasterKey(key_id={self.key_id!r})"


def master_key(secret: bytes) -> MasterKey:
    """Return the master key with this secret; its id does not reveal the secret."""
    assert len(secret) == MASTER_KEY_BYTES, f"a master key has 32 bytes, got {len(secret)}"
    return MasterKey(hashlib.sha256(b"tidings master key\0" + secret).hexdigest()[:16], secret)


class MasterKeys(Protocol):
    """Returns and rotates the master keys of this process."""

    @property
    def current(self) -> MasterKey | None:
        """The key that wraps all new keys; None until the first master key is made."""
        ...

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        """Old master keys that may still wrap other keys; none unless a rotation is unfinished."""
        ...

    async def ensure(self) -> None:
        """Make the first master key, durably, if there is none. Only an empty store may need this.

        Raises:
            SetupError: The key cannot be stored.
        """
        ...

    async def begin_rotation(self) -> None:
        """Make a new current key, and move the old one to `previous`; durable when it returns.

        The new key wraps nothing before this returns. If a rotation is unfinished, it is resumed.

        Raises:
            SetupError: This kind of key source cannot make a key, or the key cannot be stored.
        """
        ...

    async def finish_rotation(self) -> None:
        """Remove the previous keys; durable if Tidings stores the keys itself.

        Raises:
            SetupError: The previous keys cannot be removed; the rotation stays unfinished.
        """
        ...


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One author's data key, wrapped by a master key."""

    author: UserKey
    generation: int
    """Number of this key among the author's keys: 1, 2, ... A key is destroyed before the next one
    is made."""
    wrapped: bytes
    master_key_id: str
    is_ending: bool = False
    """Whether the key is about to be destroyed. Such a key may no longer encrypt or decrypt."""


class DataKeys(Protocol):
    """Stores wrapped data keys. Every write is durable when it returns."""

    async def current(self, author: UserKey) -> WrappedKey | None:
        """Return the author's key, even if it is about to be destroyed; None if there is none.

        An author has at most one key.
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
        """Mark the author's key as ending and append it to the revocation feed, in one transaction.

        Returns the key's generation, also if it was ending already; None if there is no key. An
        engine that only one process uses may destroy the key at once, as `destroy` does.
        """
        ...

    async def destroy(self, author: UserKey, generation: int, now: int) -> None:
        """Destroy a key that is ending, beyond recovery from the live store.

        The same transaction appends the erased author to the revocation feed. Only the key of this
        generation is destroyed. Safe to repeat.
        """
        ...

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        """Return some keys that another master key wraps; an empty list if none is left."""
        ...

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        """Replace the wrapping of keys that still exist; other keys are skipped."""
        ...


class Deployment(Protocol):
    """Stores the epoch and the secrets of the whole deployment."""

    @property
    def epoch(self) -> str:
        """The deployment's epoch, which changes only when a backup is restored."""
        ...

    @property
    def writes(self) -> int:
        """The newest format that processes may write now (see `model.formats`)."""
        ...

    async def sealed(self, name: str) -> tuple[str, bytes] | None:
        """Return (id of the master key, sealed secret) for a deployment secret.

        Returns None if no secret is stored under this name.
        """
        ...

    async def keep_first_sealed(
        self, name: str, master_key_id: str, sealed: bytes
    ) -> tuple[str, bytes]:
        """Store a deployment secret unless one with this name is stored; return the stored secret.

        All processes that call this at the same moment get the same secret.
        """
        ...

    async def keep_sealed(self, name: str, master_key_id: str, sealed: bytes) -> None:
        """Store a deployment secret, sealed by a master key; durable when it returns.

        Soon afterwards, old values can no longer be recovered from the live store: the value that
        this call replaced, and the values that earlier calls of `rewrap` replaced.
        """
        ...
