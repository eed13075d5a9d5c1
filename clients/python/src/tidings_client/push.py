# SPDX-License-Identifier: Apache-2.0
"""The parts of the REST API that handle push: devices of a user, and settings of a tenant."""

from typing import Any, Literal

import msgspec

from tidings_client.rest import Rest, path_of

PushContent = Literal["none", "preview"]


class AvailablePush(msgspec.Struct, frozen=True):
    """The providers for which devices can register, and the key with which browsers subscribe."""

    providers: list[str]
    vapid_public_key: str | None


class PushDevice(msgspec.Struct, frozen=True):
    """A device that is registered for push."""

    device: str
    provider: str
    app: str | None
    created_at: str


class PushSettings(msgspec.Struct, frozen=True):
    """The push settings of a tenant, without secrets."""

    content: PushContent
    webpush: dict[str, Any] | None
    fcm: dict[str, Any] | None
    apns: dict[str, Any] | None
    webhook: dict[str, Any] | None
    updated_at: str | None


class PushTest(msgspec.Struct, frozen=True):
    """What a push service answered to a test notice; `device` is None for a webhook."""

    provider: str
    device: str | None
    outcome: str
    reason: str


class _Tests(msgspec.Struct, frozen=True):
    data: list[PushTest]


class DevicePushApi:
    """The part of the REST API with which a user's devices register for push."""

    _rest: Rest

    async def push(self) -> AvailablePush:
        """Return the providers for which devices can register."""
        return await self._rest.ask(AvailablePush, "GET", "/v1/push")

    async def register_push(
        self,
        device: str,
        provider: Literal["webpush", "fcm", "apns"],
        *,
        subscription: dict[str, Any] | None = None,
        token: str | None = None,
        app: str | None = None,
    ) -> PushDevice:
        """Register a device, with the subscription of a browser or with the token of an app."""
        wanted = {"subscription": subscription, "token": token, "app": app}
        given = {name: value for name, value in wanted.items() if value is not None}
        path = path_of("me", "devices", device, "push")
        return await self._rest.ask(PushDevice, "PUT", path, {"provider": provider, **given})

    async def end_push(self, device: str) -> None:
        """End the registration of a device, if there is one."""
        await self._rest.request("DELETE", path_of("me", "devices", device, "push"))


class TenantPushApi:
    """The part of a tenant's API with which it sets up push."""

    _rest: Rest
    _tenant: str

    async def push_settings(self) -> PushSettings:
        """Return the settings of push, without secrets."""
        return await self._rest.ask(PushSettings, "GET", path_of("tenants", self._tenant, "push"))

    async def set_push(
        self, *, content: PushContent = "none", **providers: dict[str, Any]
    ) -> PushSettings:
        """Replace the settings; each provider is given by its name with its credentials.

        If a webhook is given without a `secret` and has none yet, the server makes one, which only
        this call returns. Therefore the client does not repeat the request by itself. If you get no
        answer, repeat it with a `secret` of your own.
        """
        path, body = path_of("tenants", self._tenant, "push"), {"content": content, **providers}
        return await self._rest.ask(PushSettings, "PUT", path, body, is_safe=False)

    async def test_push(self, user: str, device: str | None = None) -> list[PushTest]:
        """Send a notice to the devices of a user, and return what the push services answered."""
        body = {"user_id": user} | ({} if device is None else {"device": device})
        path = path_of("tenants", self._tenant, "push", "test")
        return (await self._rest.ask(_Tests, "POST", path, body)).data
