# SPDX-License-Identifier: Apache-2.0
"""Set and show the push settings of a tenant."""

from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from tidings.actions.identity.caller import Caller, listing_owner
from tidings.actions.push.directory import PushDirectory, PushSeal, TenantPush
from tidings.model.outgoing_refusals import PushBusy
from tidings.model.push import ContentRule, PushSettings
from tidings.model.refusals import Invalid
from tidings.ports.people import Tenants
from tidings.ports.push import ProviderName, PushCredentials, PushProviders, PushStore
from tidings.ports.world import Clock

_CHANGES_MAX: Final = 5
"""How often a change of settings is tried while others change them."""
PROVIDERS: tuple[ProviderName, ...] = get_args(ProviderName)


class ShownPush(msgspec.Struct, frozen=True):
    """The push settings of a tenant, without secrets, except for one that was just made."""

    content: ContentRule
    providers: dict[str, Mapping[str, object]]
    updated_at: int | None


class TenantPushSettings(msgspec.Struct, frozen=True):
    """Set and show the push settings of a tenant."""

    tenants: Tenants
    store: PushStore
    directory: PushDirectory
    providers: PushProviders
    seal: PushSeal
    clock: Clock

    async def show(self, caller: Caller, tenant: str) -> ShownPush:
        """Return the settings; the credentials are shown without their secrets.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
        """
        await listing_owner(self.tenants, caller, tenant)
        return await self._shown(await self.directory.tenant(tenant))

    async def put(
        self,
        caller: Caller,
        tenant: str,
        content: ContentRule,
        given: Mapping[ProviderName, PushCredentials],
    ) -> ShownPush:
        """Replace the settings; a provider that is not given is not used any more.

        A secret that is left out stays as it is. If the provider makes a new secret, only the
        result of this call shows it.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            Invalid: The credentials of a provider are malformed.
            PushBusy: Others change the settings at the same time.
        """
        await listing_owner(self.tenants, caller, tenant)
        for _ in range(_CHANGES_MAX):
            # A secret that another request has just made must not be replaced by an outdated one.
            before = await self.store.settings(tenant)
            stored = self.directory.opened(before)
            accepted = await self._accepted(given, stored)
            settings = PushSettings(
                tenant=tenant,
                content=content,
                providers=tuple(accepted),
                box=self.seal.seal_credentials(tenant, accepted),
                updated_at=self.clock.now(),
            )
            is_stored = await self.store.put_settings(settings, before)
            self.directory.changed(tenant)
            if is_stored:
                shown = await self._shown(TenantPush(content, accepted, settings.updated_at))
                return _with_made_secrets(shown, given, stored, accepted)
        raise PushBusy

    async def _accepted(
        self, given: Mapping[ProviderName, PushCredentials], stored: TenantPush
    ) -> dict[str, PushCredentials]:
        accepted: dict[str, PushCredentials] = {}
        for name in PROVIDERS:
            if name in given:
                provider = await self.providers.get(name)
                if provider is None:
                    raise Invalid(f"{name}: this server does not have this provider", f"/{name}")
                before = stored.credentials.get(name)
                accepted[name] = provider.accept_credentials(given[name], before)
        return accepted

    async def _shown(self, settings: TenantPush) -> ShownPush:
        providers: dict[str, Mapping[str, object]] = {}
        for name, credentials in settings.credentials.items():
            if (provider := await self.providers.get(name)) is not None:
                providers[name] = provider.shown(credentials)
        return ShownPush(settings.content, providers, settings.updated_at)


def _with_made_secrets(
    shown: ShownPush,
    given: Mapping[ProviderName, PushCredentials],
    stored: TenantPush,
    accepted: Mapping[str, PushCredentials],
) -> ShownPush:
    """Return the settings with the secrets that the server has just made."""
    for name in given:
        known = (given[name], stored.credentials.get(name, {}))
        secret = accepted[name].get("secret")
        if all(secret != one.get("secret") for one in known):
            shown.providers[name] = {**shown.providers[name], "secret": secret}
    return shown
