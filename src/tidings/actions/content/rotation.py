# SPDX-License-Identifier: Apache-2.0
"""Rotate the master key while the server runs; a stopped rotation resumes where it stopped.

The new master key is durable before it wraps anything. The old one is removed only after a search
has found nothing that it still wraps. In between, both are available, and each data key, signing
key and secret is stored with the id of the master key that wraps it. The data keys stay the same,
so no content is rewritten.
"""

import asyncio
import logging
from typing import Final

import msgspec

from tidings.actions.content.vault import DEPLOYMENT_SECRETS, RECEIPT_KEYS
from tidings.actions.content.wrapping import (
    CannotUnwrap,
    Wrapping,
    data_key_purpose,
    deployment_secret_purpose,
    signing_key_purpose,
)
from tidings.model.setup_error import SetupError
from tidings.ports.people import Tenants
from tidings.ports.secrets import DataKeys, Deployment, MasterKeys

log = logging.getLogger("tidings.vault")

BATCH_KEYS: Final = 100
"""Keys per write. A write blocks the event loop for about 0.5 ms, so it hardly delays sends."""


class Rotated(msgspec.Struct, frozen=True):
    """A finished rotation: the new master key, and the number of secrets that were rewrapped."""

    master_key_id: str
    secrets: int


class RotateKeys(msgspec.Struct, frozen=True):
    """Replace the master key, and wrap all secrets with the new one."""

    master: MasterKeys
    wrapping: Wrapping
    data_keys: DataKeys
    tenants: Tenants
    deployment: Deployment
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    async def __call__(self) -> Rotated:
        """Begin a rotation, or resume an unfinished rotation, and finish it.

        If this raises, nothing is lost: the old key is kept, and the rotation can be resumed.

        Raises:
            SetupError: There is no next key, or the old key does not decrypt a secret.
            StoreUnavailable: The store cannot write now.
        """
        async with self.turn:
            await self.master.begin_rotation()
            return await self._finish()

    async def resume(self) -> Rotated | None:
        """Finish a rotation that was stopped; return None if no rotation is unfinished."""
        async with self.turn:
            return await self._finish() if self.master.previous else None

    async def _finish(self) -> Rotated:
        log.info("rotating", extra={"action": "rotation_begun", "key": self.wrapping.key_id})
        await self.wrapping.settled()
        secrets = 0
        while rewrapped := await self._pass():
            # Search once more: a write whose caller gave up may have arrived after this pass.
            secrets += rewrapped
        await self.master.finish_rotation()
        done = Rotated(self.wrapping.key_id, secrets)
        extra = {"action": "rotation_finished", "key": done.master_key_id, "secrets": secrets}
        log.info("rotated", extra=extra)
        return done

    async def _pass(self) -> int:
        """Rewrap all secrets that another master key still wraps; return how many.

        The deployment's secrets come last: once the new key wraps them, it wraps everything.
        """
        try:
            return (
                await self._rewrap_data_keys()
                + await self._rewrap_signing_keys()
                + await self._rewrap_deployment_secrets()
            )
        except CannotUnwrap as reason:
            raise SetupError(f"the rotation stopped, and nothing is lost: {reason}") from None

    async def _rewrap_data_keys(self) -> int:
        done = 0
        while keys := await self.data_keys.wrapped_by_others(self.wrapping.key_id, BATCH_KEYS):
            rewrapped = []
            for key in keys:
                purpose = data_key_purpose(key.author)
                key_id, wrapped = self._rewrap(purpose, key.master_key_id, key.wrapped)
                rewrapped.append(
                    msgspec.structs.replace(key, wrapped=wrapped, master_key_id=key_id)
                )
            await self.data_keys.rewrap(rewrapped)
            done += len(keys)
        return done

    async def _rewrap_signing_keys(self) -> int:
        done = 0
        while keys := await self.tenants.signing_keys_wrapped_by_others(
            self.wrapping.key_id, BATCH_KEYS
        ):
            rewrapped = []
            for key in keys:
                purpose = signing_key_purpose(key.key_id)
                key_id, sealed = self._rewrap(purpose, key.master_key_id, key.sealed_private)
                rewrapped.append(
                    msgspec.structs.replace(key, sealed_private=sealed, master_key_id=key_id)
                )
            await self.tenants.rewrap_signing_keys(rewrapped)
            done += len(keys)
        return done

    async def _rewrap_deployment_secrets(self) -> int:
        done = 0
        for name in (*DEPLOYMENT_SECRETS, RECEIPT_KEYS):
            kept = await self.deployment.sealed(name)
            while kept is not None and kept[0] != self.wrapping.key_id:
                key_id, sealed = self._rewrap(deployment_secret_purpose(name), *kept)
                if await self.deployment.replace_sealed(name, kept, key_id, sealed):
                    done += 1
                    break
                kept = await self.deployment.sealed(name)  # a receipt key was added meanwhile
        return done

    def _rewrap(self, purpose: str, master_key_id: str, wrapped: bytes) -> tuple[str, bytes]:
        try:
            return self.wrapping.wrap(
                purpose, self.wrapping.unwrap(purpose, master_key_id, wrapped)
            )
        except CannotUnwrap as reason:
            what = purpose.replace("\0", " ")
            raise CannotUnwrap(f"the {what} cannot be rewrapped: {reason}") from None
