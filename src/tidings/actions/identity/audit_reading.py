# SPDX-License-Identifier: Apache-2.0
"""List the acts in the audit trail, newest first."""

from dataclasses import dataclass
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.identity.caller import Caller, require_root, require_tenant
from tidings.model import limits
from tidings.model.audit import Act, AuditEntry
from tidings.model.ids import UserKey
from tidings.model.refusals import TenantNotFound
from tidings.ports.people import AuditLog, Tenants
from tidings.ports.world import Clock

_PURPOSE: Final = "audit"
_EVERYONE: Final = UserKey("*")


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """Position in the list: the next page starts with the acts before this act."""

    at: int
    entry_id: str
    act: int


class RecordedAct(msgspec.Struct, frozen=True):
    """One act, with the entry that contains it."""

    entry: AuditEntry
    act: Act
    number: int

    @property
    def act_id(self) -> str:
        """Return the unique id of the act."""
        return f"{self.entry.entry_id}-{self.number}"


@dataclass(frozen=True, slots=True)
class ReadAudit:
    """Reader of the audit trail, for one tenant or for the whole deployment."""

    entries: AuditLog
    tenants: Tenants
    vault: Vault
    clock: Clock

    async def of_tenant(
        self, caller: Caller, tenant: str, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """Return a page of the acts on a tenant, by any actor, and the cursor of the next page."""
        require_tenant(caller, tenant)
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        return await self._page(tenant, UserKey(tenant), cursor, limit)

    async def of_all(
        self, caller: Caller, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """Return a page of all acts, and the cursor of the next page."""
        require_root(caller)
        return await self._page(None, _EVERYONE, cursor, limit)

    async def _page(
        self, tenant: str | None, bound_to: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        cursors, now = self.vault.cursors, self.clock.now()
        # Start a day ahead: the clock of another process may be ahead of ours.
        place = _Place(now + limits.DAY_MS, "", 0)
        if cursor is not None:
            place = msgspec.json.decode(cursors.open(_PURPOSE, bound_to, cursor), type=_Place)
        found = await self.entries.page(
            tenant,
            since=now - limits.AUDIT_MS,
            # Read two more than the page shows: the entry of the cursor again, since it may
            # contain more acts, and one act that shows whether there is a next page.
            before=(place.at, place.entry_id + " "),
            limit=limit + 2,
        )
        acts = [act for entry in found for act in _acts(entry) if _is_below(act, place)]
        page = acts[:limit]
        if len(acts) <= limit:
            return page, None
        last = page[-1]
        next_place = _Place(*last.entry.place, last.number)
        return page, cursors.seal(_PURPOSE, bound_to, msgspec.json.encode(next_place))


def _acts(entry: AuditEntry) -> list[RecordedAct]:
    acts = [RecordedAct(entry, act, number) for number, act in enumerate(entry.acts)]
    return acts[::-1]


def _is_below(recorded: RecordedAct, place: _Place) -> bool:
    return (*recorded.entry.place, recorded.number) < (place.at, place.entry_id, place.act)
