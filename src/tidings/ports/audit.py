# SPDX-License-Identifier: Apache-2.0
"""Where the audit trail is kept. There is no way to change an entry but to add its outcome."""

from typing import Protocol

from tidings.model.audit import AuditEntry

Place = tuple[int, str]
"""When an entry was begun, and its id."""


class AuditLog(Protocol):
    """Entries by time."""

    async def append(self, entry: AuditEntry) -> None:
        """Keep an entry; durable when it returns."""
        ...

    async def complete(self, entry: AuditEntry) -> None:
        """Add outcome, code and target to an entry that has no outcome yet; else nothing."""
        ...

    async def page(
        self, tenant: str | None, *, since: int, before: Place, limit: int
    ) -> list[AuditEntry]:
        """Entries from `since` on and below a place, newest first: a tenant's, or all.

        All of them may lack those of the last second.
        """
        ...
