# SPDX-License-Identifier: Apache-2.0
"""Sign the receipt that proves the deletion of a user, with a key of the deployment.

This is not a receipt of a chat.

A tenant's signing key is not used, because it is deleted with the tenant, and because a receipt
signed with it could be mistaken for a token. Older keys stay published, so every receipt can be
verified for ever.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.api_jws import PyJWS

from tidings.actions.content.vault import RECEIPT_KEYS
from tidings.actions.content.wrapping import CannotUnwrap, Wrapping, deployment_secret_purpose
from tidings.actions.identity.json_web_keys import JsonWebKey, ed25519_key
from tidings.model.ids import UserKey, rfc3339, tenant_of
from tidings.model.limits import DAY_MS
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import Deployment
from tidings.ports.tenant_jobs import TenantJob
from tidings.ports.world import Chance, Clock

TYPE: Final = "tidings-erasure+jws"
ALGORITHM: Final = "EdDSA"
_ROTATIONS_MAX: Final = 5
"""Maximum number of attempts to add a key. A second one is needed only if the stored keys change at
the same moment."""

_jws = PyJWS(algorithms=[ALGORITHM])


class ReceiptKey(msgspec.Struct, frozen=True):
    """A key that signs receipts, or signed receipts earlier."""

    key_id: str
    secret: bytes
    created_at: int

    @property
    def private(self) -> Ed25519PrivateKey:
        """The private key, as an object of the cryptography library."""
        return Ed25519PrivateKey.from_private_bytes(self.secret)


class Remains(msgspec.Struct, frozen=True):
    """Data of a deleted user that remains, with the reason and the time of its removal."""

    what: str
    why: str
    until: str | None = None


class ErasureReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the receipt for the deletion of a user. `subject` is the SHA-256 of
    `tenant:user_id`, in hexadecimal."""

    iss: str = "tidings"
    tenant: str
    subject: str
    deleted_at: str
    finished_at: str
    counts: dict[str, int]
    remains: tuple[Remains, ...]
    backups_until: str | None
    """Time at which the deployment deletes its last backup with this data; null if the operator
    decides about backups."""


REMAINS: Final = (
    Remains("the id of the user, as a mark", "so that nobody else ever gets this id"),
    Remains(
        "encrypted contents of the user's messages and edits, and their encrypted words in the"
        " search index",
        "entries of a log are never removed; the key is destroyed, so nobody can read them",
    ),
    Remains(
        "the id of the user in entries of logs: as sender, where members joined or left, and where"
        " others mention the user",
        "the other members' logs stay as they were",
    ),
    Remains(
        "the id of the user in the records of these chats: as creator, and as the other user of a"
        " direct chat",
        "the other members' chats stay as they were",
    ),
    Remains("names that the user gave to groups", "they belong to the groups"),
    Remains("the user's reactions to messages", "they are part of the others' messages"),
    Remains(
        "invitations that the user sent", "they belong to the invited users", "30 days at most"
    ),
    Remains(
        "idempotency keys of the user's sends, with digests that nobody can check any more",
        "they expire by themselves",
        "7 days at most",
    ),
    Remains("counters of limits that the user used up", "they expire by themselves", "one day"),
    Remains("lines about the user in the audit trail", "nobody can remove one", "400 days at most"),
    Remains(
        "reports by the user and about the user, without what the user wrote",
        "the tenant decides about them; the key is destroyed, so nobody can read the user's words",
        "90 days at most",
    ),
    Remains(
        "the id of the user in events for the tenant's webhooks",
        "the tenant's systems have to learn of them, among them of the deletion",
        "30 days at most",
    ),
    Remains(
        "the id of the user in deliveries of notifications that were still waiting, in copies that"
        " these make, and in copies of notifications that the tenant addresses to the id later",
        "delivery does not look up each recipient; nobody can read these copies",
        "until the notification expires",
    ),
    Remains(
        "encrypted parts of an export of the user",
        "they expire by themselves; the key is destroyed, so nobody can read them",
        "7 days at most",
    ),
    Remains(
        "the id of the user in the lists of revocations and of destroyed keys",
        "processes and devices learn from them what they must forget",
    ),
    Remains(
        "the jobs about the user, with their counts, and the ledger of erasures",
        "they prove what was done",
    ),
)


class ErasureReceipts:
    """Signs receipts with the keys of the deployment, and publishes and rotates these keys."""

    def __init__(
        self,
        deployment: Deployment,
        wrapping: Wrapping,
        clock: Clock,
        chance: Chance,
        backup_days: int | None = None,
    ) -> None:
        """Set up the receipts; `backup_days` is None if the operator decides about backups."""
        self._deployment = deployment
        self._wrapping = wrapping
        self._clock = clock
        self._chance = chance
        self._backup_days = backup_days

    async def of_user(self, user: UserKey, job: TenantJob, deleted_at: int) -> str:
        """Return the signed receipt for a user whose deletion ends now, as a compact JWS.

        Raises:
            StoreUnavailable: The key cannot be read or decrypted now.
        """
        now = self._clock.now()
        days = self._backup_days
        receipt = ErasureReceipt(
            tenant=tenant_of(user),
            subject=subject_of(user),
            deleted_at=rfc3339(deleted_at),
            finished_at=rfc3339(now),
            counts=dict(sorted(job.counts.items())),
            remains=REMAINS,
            backups_until=None if days is None else rfc3339(now + days * DAY_MS),
        )
        key = (await self._keys())[0]
        headers = {"typ": TYPE, "kid": key.key_id}
        return _jws.encode(msgspec.json.encode(receipt), key.private, ALGORITHM, headers)

    async def published(self) -> list[JsonWebKey]:
        """Return the public keys that verify the receipts for deleted users, newest first.

        Raises:
            StoreUnavailable: The keys cannot be read or decrypted now.
        """
        return [ed25519_key(key.key_id, key.private.public_key()) for key in await self._keys()]

    async def rotate(self) -> str:
        """Add a key, which signs all receipts from now on; return its id.

        Raises:
            StoreUnavailable: The keys cannot be read or written now.
        """
        for _ in range(_ROTATIONS_MAX):
            kept = await self._kept()
            new = self._new()
            if await self._replace(kept, [new, *self._opened(kept)]):
                return new.key_id
        raise StoreUnavailable("others change the receipt keys at the same time")

    async def _replace(self, kept: tuple[str, bytes], keys: Sequence[ReceiptKey]) -> bool:
        """Store the keys, unless others have changed them since: no key may be lost, because
        receipts that it signed are verified for ever."""
        return await self._wrapping.keep(
            deployment_secret_purpose(RECEIPT_KEYS),
            msgspec.json.encode(keys),
            lambda key_id, box: self._deployment.replace_sealed(RECEIPT_KEYS, kept, key_id, box),
        )

    async def _keys(self) -> list[ReceiptKey]:
        return self._opened(await self._kept())

    async def _kept(self) -> tuple[str, bytes]:
        """Return the keys as they are stored; make the first one if there is none."""
        kept = await self._deployment.sealed(RECEIPT_KEYS)
        if kept is not None:
            return kept
        return await self._wrapping.keep(
            deployment_secret_purpose(RECEIPT_KEYS),
            msgspec.json.encode([self._new()]),
            lambda key_id, box: self._deployment.keep_first_sealed(RECEIPT_KEYS, key_id, box),
        )

    def _opened(self, kept: tuple[str, bytes]) -> list[ReceiptKey]:
        purpose = deployment_secret_purpose(RECEIPT_KEYS)
        try:
            return msgspec.json.decode(self._wrapping.unwrap(purpose, *kept), type=list[ReceiptKey])
        except CannotUnwrap:
            raise StoreUnavailable("the receipt keys cannot be decrypted") from None

    def _new(self) -> ReceiptKey:
        return ReceiptKey(
            f"receipt.{self._chance.token(8).hex()}", self._chance.token(32), self._clock.now()
        )


def subject_of(user: UserKey) -> str:
    """Return the digest by which a receipt names a user."""
    return hashlib.sha256(user.encode()).hexdigest()
