# SPDX-License-Identifier: Apache-2.0
"""Port for the data of a tenant or of an inbox that its deletion removes."""

from typing import Protocol

from tidings.ports.people import Tenant


class TenantData(Protocol):
    """Removes the data of a tenant. Every write is durable when it returns, and safe to repeat."""

    async def mark_deleted(self, tenant: str, now: int) -> Tenant:
        """Suspend the tenant and mark it as deleted, for good; return the marked tenant.

        The suspension is also appended to the revocation feed. If the tenant does not exist, an
        empty tenant with this mark is stored. A repeat changes nothing.
        """
        ...

    async def forget_inbox(self, tenant: str, inbox: str) -> None:
        """Remove the configuration of an inbox, so that nobody can use it any more."""
        ...

    async def forget(self, tenant: str) -> None:
        """Remove everything about a deleted tenant, except that it is deleted.

        This includes its name, quotas and settings, its tenant keys and signing keys, its own
        public keys, and its entry in the list of tenants.
        """
        ...
