# SPDX-License-Identifier: Apache-2.0
"""Register devices for push, and end registrations."""

from collections.abc import Mapping

import msgspec

from tidings.actions.identity.caller import Caller, UserCaller, require_user
from tidings.actions.identity.credential_status import is_user_valid
from tidings.actions.identity.users import check_device
from tidings.actions.push.directory import PushDirectory, PushSeal
from tidings.model.ids import UserKey, tenant_of
from tidings.model.outgoing_refusals import PushOff
from tidings.model.push import PushRegistration, target_digest
from tidings.model.refusals import Forbidden, Invalid
from tidings.ports.push import (
    DEVICE_PROVIDERS,
    PushProvider,
    PushProviders,
    PushStore,
    PushTarget,
)
from tidings.ports.sessions import Sessions
from tidings.ports.world import Clock

_PROVIDER = f"provider: must be one of {', '.join(DEVICE_PROVIDERS)}"


class AvailablePush(msgspec.Struct, frozen=True):
    """What a user needs to register a device."""

    providers: list[str]
    public: dict[str, object]
    """Public values of the providers, such as the VAPID key of Web Push."""


class ShowPush(msgspec.Struct, frozen=True):
    """Return which providers the tenant of a user has, and their public values."""

    directory: PushDirectory
    providers: PushProviders

    async def __call__(self, user: UserKey) -> AvailablePush:
        settings = await self.directory.tenant(tenant_of(user))
        available = AvailablePush([], {})
        for name in DEVICE_PROVIDERS:
            provider = await self.providers.get(name) if name in settings.credentials else None
            if provider is not None:
                available.providers.append(name)
                available.public.update(provider.public(settings.credentials[name]))
        return available


class RegisterDevice(msgspec.Struct, frozen=True):
    """Register a device of the caller for push, or end its registration."""

    store: PushStore
    directory: PushDirectory
    providers: PushProviders
    seal: PushSeal
    sessions: Sessions
    clock: Clock

    async def __call__(
        self, caller: Caller, device: str, given: Mapping[str, object]
    ) -> PushRegistration:
        """Store the token or the subscription in `given` in place of the device's earlier one.

        Another device that has registered the same one, perhaps of another user, does not get
        notices any more. Returns the stored registration, and writes nothing, if there is nothing
        to change.

        Raises:
            Invalid: The name of the device, or its registration, is malformed.
            Forbidden: The caller's token belongs to another device.
            PushOff: The tenant has not configured the provider.
            LimitReached: The user has registered too many other devices.
        """
        me = _device_owner(caller, device)
        target = (await self._provider(me.user, given.get("provider"))).accept_target(given)
        stored = await self._stored(me, device, target)
        if stored is not None:
            return stored
        registration = PushRegistration(
            user_id=me.user,
            device=device,
            provider=target.provider,
            app=target.app,
            box=self.seal.seal_target(me.user, target),
            digest=target_digest(target.provider, target.address),
            session_id=me.session,
            created_at=self.clock.now(),
        )
        before = await self.store.register(registration)
        for user in {me.user, before or me.user}:
            self.directory.changed(user)
        return registration

    async def end(self, caller: Caller, device: str) -> None:
        """End the registration of a device, if there is one.

        Raises:
            Invalid: The name of the device is malformed.
            Forbidden: The caller's token belongs to another device.
        """
        me = _device_owner(caller, device)
        await self.store.remove(me.user, device, self.clock.now())
        self.directory.changed(me.user)

    async def _stored(
        self, me: UserCaller, device: str, target: PushTarget
    ) -> PushRegistration | None:
        """Return the registration of a device if a new one would be the same.

        Apps register each time they start. A write for each start would take the positions in the
        revocation feed that revocations need.
        """
        for one in await self.store.of(me.user):
            if (one.device, one.session_id) == (device, me.session):
                is_same = self.seal.open_target(one) == target and await self._is_valid(one)
                return one if is_same else None
        return None

    async def _is_valid(self, registration: PushRegistration) -> bool:
        """Return True if a registration of the caller's session was not revoked. Without a session,
        it is revoked with the tokens that the user had when it was made."""
        if registration.session_id is not None:
            return True
        stored = await self.sessions.stored_credentials(registration.user_id, None)
        return is_user_valid(stored, registration.created_at)

    async def _provider(self, user: UserKey, name: object) -> PushProvider:
        if name not in DEVICE_PROVIDERS:
            raise Invalid(_PROVIDER, "/provider")
        settings = await self.directory.tenant(tenant_of(user))
        provider = await self.providers.get(str(name)) if name in settings.credentials else None
        if provider is None:
            raise PushOff
        return provider


def _device_owner(caller: Caller, device: str) -> UserCaller:
    """Return the caller, who may change the registration of this device."""
    me = require_user(caller)
    check_device(device)
    if me.device not in (None, device):
        raise Forbidden("the token belongs to another device")
    return me
