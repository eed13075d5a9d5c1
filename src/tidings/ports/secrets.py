# SPDX-License-Identifier: Apache-2.0
"""Master keys, data keys as they are kept (wrapped), and the deployment's own secrets."""

import hashlib
from typing import Final, Protocol

import msgspec

from tidings.model.ids import UserKey

MASTER_KEY_BYTES: Final = 32


class KeyRefused(Exception):
    """A master or root key that cannot be used, and why; for the operator."""


class MasterKey(msgspec.Struct, frozen=True):
    """A key that wraps other keys and never seals content itself."""

    key_id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"MasterKey(key_id={self.key_id!r})"


def master_key(secret: bytes) -> MasterKey:
    """The master key with this secret; its id tells nothing about it."""
    assert len(secret) == MASTER_KEY_BYTES, f"a master key has 32 bytes, got {len(secret)}"
    return MasterKey(hashlib.sha256(b"tidings master key\0" + secret).hexdigest()[:16], secret)


class MasterKeys(Protocol):
    """The master keys this process holds."""

    @property
    def current(self) -> MasterKey | None:
        """The key that wraps everything new; None until there is a first one."""
        ...

    @property
    def previous(self) -> tuple[MasterKey, ...]:
        """Keys that may still wrap something: not empty means that a rotation is unfinished."""
        ...

    async def ensure(self) -> None:
        """Make the first key, durably, if there is none. Only for a store that holds nothing yet.

        Raises:
            KeyRefused: It cannot be kept.
        """
        ...

    async def begin_rotation(self) -> None:
        """Have a new current key, the old one becoming previous; durable when it returns.

        Nothing is wrapped by the new key before. If a rotation is unfinished it goes on.

        Raises:
            KeyRefused: There is no next key to be had this way, or it cannot be kept.
        """
        ...

    async def finish_rotation(self) -> None:
        """Forget the previous keys, durably where they are ours to forget.

        Raises:
            KeyRefused: They cannot be removed; the rotation stays unfinished.
        """
        ...


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True):
    """One author's data key, wrapped by a master key."""

    author: UserKey
    generation: int
    """1, 2, ...: an author gets a new one only after the earlier ones were destroyed."""
    wrapped: bytes
    master_key_id: str
    is_ending: bool = False
    """It is about to be destroyed: nothing may be sealed with it or opened any more."""


class DataKeys(Protocol):
    """Wrapped data keys. Every write is durable when it returns."""

    async def current(self, author: UserKey) -> WrappedKey | None:
        """The author's only key, also if it is ending; None if there is none (any more)."""
        ...

    async def get(self, author: UserKey, generation: int) -> WrappedKey | None:
        """The key a box was sealed with; None if it was destroyed, or is ending."""
        ...

    async def add(self, key: WrappedKey) -> WrappedKey:
        """Keep the key unless the author has a current one; returns the one that counts now.

        The generation of the argument is ignored: it gets the next one never used before.
        """
        ...

    async def end(self, author: UserKey, now: int) -> int | None:
        """Begin to destroy the author's key, and tell the feed of it in the same transaction.

        Returns the generation that is ending, also if it was before; None if there is no key. An
        engine that only one process uses may destroy it at once.
        """
        ...

    async def destroy(self, author: UserKey, generation: int) -> None:
        """Forget a key that is ending, beyond recovery from the live store.

        Any other key of the author stays. Safe to repeat.
        """
        ...

    async def wrapped_by_others(self, master_key_id: str, limit: int) -> list[WrappedKey]:
        """Some keys that another master key wraps; empty when there are none left."""
        ...

    async def rewrap(self, keys: list[WrappedKey]) -> None:
        """Replace the wrapping of keys that are still there; others are passed over."""
        ...


class Deployment(Protocol):
    """Values of the deployment as a whole."""

    @property
    def epoch(self) -> str:
        """Under which sequences are valid: changes only when the store is restored."""
        ...

    async def sealed(self, name: str) -> tuple[str, bytes] | None:
        """A deployment secret as it is kept: the id of the master key that seals it, and it."""
        ...

    async def keep_first_sealed(
        self, name: str, master_key_id: str, sealed: bytes
    ) -> tuple[str, bytes]:
        """Keep a deployment secret unless there is one; returns the one that counts now.

        Whatever processes do this at the same moment, they are all told the same.
        """
        ...

    async def keep_sealed(self, name: str, master_key_id: str, sealed: bytes) -> None:
        """Keep a deployment secret, sealed by a master key; durable when it returns.

        What was replaced up to then, here and by `rewrap`, is beyond recovery from the live store
        soon afterwards.
        """
        ...
