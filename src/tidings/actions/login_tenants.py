# SPDX-License-Identifier: Apache-2.0
"""Which tenants let their users log in by phone: only those that switched it on."""

from dataclasses import dataclass

from tidings.model.login_settings import LoginSettings, login_settings_in
from tidings.model.refusals import Invalid
from tidings.ports.inboxes import InboxSettings
from tidings.ports.people import Tenant, Tenants


@dataclass(frozen=True, slots=True)
class LoginTenant:
    """A tenant whose users may log in by phone now."""

    tenant: Tenant
    may_register: bool
    """Whether a number that is nobody's becomes a new user."""


@dataclass(frozen=True, slots=True)
class LoginTenants:
    """Reads tenants with their settings, strongly: a switch counts at once in every process."""

    tenants: Tenants
    settings: InboxSettings

    async def find(self, tenant: str) -> LoginTenant | None:
        """The tenant; None if it is unknown or suspended, or has not switched phone login on.

        Both reads are made in every case, so that the time does not tell the cases apart.
        """
        found = await self.tenants.get(tenant)
        said = _read(await self.settings.settings(tenant))
        if found is None or found.suspended_at is not None or not said.phone:
            return None
        return LoginTenant(found, said.register)


def _read(settings: dict[str, object] | None) -> LoginSettings:
    try:
        return login_settings_in(settings or {})
    except Invalid:
        # Kept before `login` had a meaning: whatever it is, it does not switch anything on.
        return LoginSettings()
