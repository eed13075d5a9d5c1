# SPDX-License-Identifier: Apache-2.0
"""The audit trail: who did what to what, when, and what came of it. Never a secret, never content.

One entry stands for one administrative act. Tokens that one key asks for while the entry before is
being written share the next one: they are so many that each would cost more than making it.
"""

from typing import Literal

import msgspec

Actor = Literal["root", "tenant_key", "cli"]
Outcome = Literal["done", "refused", "failed"]


class Act(msgspec.Struct, frozen=True, array_like=True):
    """One act of an entry."""

    at: int
    target: str | None = None
    """What it was done to, within the tenant; None if that is the tenant or the deployment."""
    request_id: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Acts of one actor that differ in nothing but their targets."""

    at: int
    """When it was begun: of the first act."""
    entry_id: str
    tenant: str
    """Whose tenant it is about; empty if it is about the deployment."""
    actor: Actor
    actor_id: str | None = None
    """Of a tenant key: its id."""
    action: str
    """A stable name: the operation's."""
    fields: tuple[str, ...] = ()
    """What was said with it: names of fields, with their values only if these are true or false."""
    acts: tuple[Act, ...]
    outcome: Outcome | None = None
    """None: nobody knows, it was begun and its end is not recorded."""
    code: str | None = None
    """Of what was refused."""

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands among the others: by time."""
        return self.at, self.entry_id
