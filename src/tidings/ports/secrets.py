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
        """The master key that wraps all new keys; None until the first master key is made."""
        ...

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        """Old master keys that may still wrap other keys; empty if no rotation is unfinished."""
        ...

    async def ensure(self) -> None:
        """Make the first master key, durably, if there is none. Only an empty store may need this.

        Raises:
            SetupError: The key cannot be stored.
        """
        ...

    async def begin_rotation(self) -> None:
        """Make a new current master key, and move the old one to `previous`; durable on return.

        The new key wraps nothing before this returns. If an earlier rotation is unfinished, it is
        resumed, and no key is made.

        Raises:
            SetupError: This kind of key source cannot make a key, or the key cannot be stored.
        """
        ...

    async def finish_rotation(self) -> None:
        """Remove the master keys in `previous`; durable if Tidings stores the keys itself.

        Raises:
            SetupError: The previous keys cannot be removed; the rotation stays unfinished.
        """
        ...


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One author's data key, wrapped by a master key."""

    author: UserKey
    generation: int
    """Number of this data key among the author's data keys: 1, 2, ... A data key is destroyed
    before the next one is made."""
    wrapped: bytes
    master_key_id: str
    is_ending: bool = False
    """Whether the key is about to be destroyed. Such a key may no longer encrypt or decrypt."""


class DataKeys(Protocol):
    """Stores wrapped data keys. Every write is durable when it returns."""

    async def current(self, author: UserKey) -> WrappedKey | None:
        """Return the author's data key, even if `end` was called for it; None if there is none.

        An author has at most one data key.
        """
        ...

    async def get(self, author: UserKey, generation: int) -> WrappedKey | None:
        """Return the author's key of this generation; None if it is destroyed or `end` was called
        for it."""
        ...

    async def add(self, key: WrappedKey) -> WrappedKey:
        """Store a data key, unless the author has one; return the data key that the author now has.

        The generation of the argument is ignored: the key gets the next unused generation.
        """
        ...

    async def end(self, author: UserKey, now: int) -> int | None:
        """Announce that the author's data key will be destroyed: from now on, nobody may use it.

        One transaction sets the key's `is_ending` and appends it to the revocation feed. Returns
        the key's generation, also if `is_ending` was set already; None if there is no key. An
        engine that only one process uses may destroy the key at once, as `destroy` does.
        """
        ...

    async def destroy(self, author: UserKey, generation: int, now: int) -> None:
        """Destroy the author's data key of this generation, for which `end` was called before.

        It cannot be recovered from the live store. The same transaction appends the erased author
        to the revocation feed. A repeat changes nothing.
        """
        ...

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        """Return some data keys that are wrapped by another master key than this one; an empty list
        if none is left."""
        ...

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        """Store data keys that were wrapped again; skip those that no longer exist."""
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
        """Return (id of the master key, encrypted secret) for a secret of the deployment.

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

    async def replace_sealed(
        self, name: str, before: tuple[str, bytes], master_key_id: str, sealed: bytes
    ) -> bool:
        """Replace a secret of the deployment, as `sealed` returned it; durable on return.

        Return False, and change nothing, if another value is stored by now.

        Soon afterwards, two kinds of old values cannot be recovered from the live store any more:
        the value that this call replaced, and the wrapped keys that earlier calls of `rewrap`
        replaced.
        """
        ...
