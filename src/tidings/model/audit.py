# SPDX-License-Identifier: Apache-2.0
"""The audit trail: actor, action, target, time and outcome. Never a secret, never content.

One entry records one administrative act. Tokens that one key requests while the previous entry is
being written share the next entry: an entry for each would cost more than making the token.
"""

from typing import Literal

import msgspec

Actor = Literal["root", "tenant_key", "cli"]
Outcome = Literal["done", "refused", "failed"]


class Act(msgspec.Struct, frozen=True, array_like=True):
    """One act within an audit entry."""

    at: int
    target: str | None = None
    """Target within the tenant; None if it is the tenant or the deployment itself."""
    request_id: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Acts of one actor that differ only in time, target and request."""

    at: int
    """Start of the first act."""
    entry_id: str
    tenant: str
    """Tenant the act is about; empty if it is about the deployment."""
    actor: Actor
    actor_id: str | None = None
    """Id of the key, if the actor is a tenant key."""
    action: str
    """Stable name of the operation."""
    fields: tuple[str, ...] = ()
    """Names of the fields in the request, with values only where these are booleans."""
    acts: tuple[Act, ...]
    outcome: Outcome | None = None
    """None if unknown: the start was recorded, but not the end."""
    code: str | None = None
    """Refusal code, if refused."""

    @property
    def place(self) -> tuple[int, str]:
        """Position in the trail, ordered by time."""
        return self.at, self.entry_id
