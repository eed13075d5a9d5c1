# SPDX-License-Identifier: Apache-2.0
"""Port for the audit trail.

One audit entry records one administrative act. Tokens are an exception: all tokens that are
requested with the same tenant key, while the previous entry is being written, share the next entry.
An entry per token would cost more than the token.
"""

from typing import Literal, Protocol

import msgspec

Actor = Literal["root", "tenant_key", "cli"]
Outcome = Literal["done", "refused", "failed"]


class Act(msgspec.Struct, frozen=True, array_like=True):
    """One administrative act, such as the creation of a token. An audit entry may record several
    acts of the same kind."""

    at: int
    target: str | None = None
    """User or other object of the tenant; None if the act concerns the tenant or the deployment."""
    request_id: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Acts of one actor that differ only in time, target and request."""

    at: int
    """Start of the first act."""
    entry_id: str
    tenant: str
    """Tenant that the act concerns; empty if it concerns the deployment."""
    actor: Actor
    actor_id: str | None = None
    """Id of the key, if the actor is a tenant key."""
    action: str
    """Stable name of the operation."""
    fields: tuple[str, ...] = ()
    """Names of the fields in the request; for a boolean field, also its value."""
    acts: tuple[Act, ...]
    outcome: Outcome | None = None
    """None if only the start of the act was recorded, so that the outcome is unknown."""
    code: str | None = None
    """Refusal code, if the act was refused."""

    @property
    def position(self) -> tuple[int, str]:
        """Position in the audit trail, which is ordered by time."""
        return self.at, self.entry_id


AuditPosition = tuple[int, str]
"""Start time of an audit entry, and its id."""


class AuditLog(Protocol):
    """Stores audit entries in the order of time."""

    async def append(self, entry: AuditEntry) -> None:
        """Store an entry; durable when it returns."""
        ...

    async def complete(self, entry: AuditEntry) -> None:
        """Add outcome, refusal code and target to a stored entry, unless it already has an
        outcome."""
        ...

    async def page(
        self, tenant: str | None, *, since: int, before: AuditPosition, limit: int
    ) -> list[AuditEntry]:
        """Return entries not older than `since` and before a position, newest first.

        If `tenant` is None, entries of all tenants are returned, and entries of the last second may
        be missing.
        """
        ...
