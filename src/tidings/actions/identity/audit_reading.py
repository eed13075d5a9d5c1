# SPDX-License-Identifier: Apache-2.0
"""Reading the audit trail: each act by itself, newest first."""

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
    """Where a list goes on: below this act of an entry, then with the entries below it."""

    at: int
    entry_id: str
    act: int


class RecordedAct(msgspec.Struct, frozen=True):
    """One act, and the entry that it stands in."""

    entry: AuditEntry
    act: Act
    number: int

    @property
    def act_id(self) -> str:
        """A name of its own."""
        return f"{self.entry.entry_id}-{self.number}"


@dataclass(frozen=True, slots=True)
class ReadAudit:
    """The acts of a tenant, or all of them."""

    entries: AuditLog
    tenants: Tenants
    vault: Vault
    clock: Clock

    async def of_tenant(
        self, caller: Caller, tenant: str, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """A page of what was done to a tenant, by whomever; and the cursor of the next one."""
        require_tenant(caller, tenant)
        if await self.tenants.get(tenant) is None:
            raise TenantNotFound
        return await self._page(tenant, UserKey(tenant), cursor, limit)

    async def of_all(
        self, caller: Caller, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        """A page of all that was done."""
        require_root(caller)
        return await self._page(None, _EVERYONE, cursor, limit)

    async def _page(
        self, tenant: str | None, bound_to: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[RecordedAct], str | None]:
        cursors, now = self.vault.cursors, self.clock.now()
        # Another process's clock may be ahead of ours.
        place = _Place(now + limits.DAY_MS, "", 0)
        if cursor is not None:
            place = msgspec.json.decode(cursors.open(_PURPOSE, bound_to, cursor), type=_Place)
        found = await self.entries.page(
            tenant,
            since=now - limits.AUDIT_MS,
            # The entry of the place itself is read again: it may have more acts. And one more
            # than is shown tells whether there is a next page.
            before=(place.at, place.entry_id + " "),
            limit=limit + 2,
        )
        acts = [one for entry in found for one in _acts(entry) if _is_below(one, place)]
        page = acts[:limit]
        if len(acts) <= limit:
            return page, None
        last = page[-1]
        goes_on = _Place(*last.entry.place, last.number)
        return page, cursors.seal(_PURPOSE, bound_to, msgspec.json.encode(goes_on))


def _acts(entry: AuditEntry) -> list[RecordedAct]:
    acts = [RecordedAct(entry, act, number) for number, act in enumerate(entry.acts)]
    return acts[::-1]


def _is_below(one: RecordedAct, place: _Place) -> bool:
    return (*one.entry.place, one.number) < (place.at, place.entry_id, place.act)
