# SPDX-License-Identifier: Apache-2.0
"""Operations on push: devices of users, and the settings of tenants."""

from typing import Annotated, Any, Final, Literal, cast

import msgspec

from tidings.actions.identity.caller import Caller
from tidings.actions.push.sending import SentPush
from tidings.actions.push.settings import ShownPush
from tidings.actions.push.verbs import PushVerbs
from tidings.api.fields import Device
from tidings.api.operations import Audited, operation
from tidings.api.requests import Body
from tidings.model.ids import UserKey, rfc3339
from tidings.model.outgoing_refusals import ProviderMissing, PushOff
from tidings.model.push import ContentRule, PushRegistration
from tidings.model.refusals import LimitReached, TenantNotFound, UserNotFound
from tidings.ports.push import ProviderName

TAG: Final = "Push"
TOKEN_CHARS_MAX: Final = 4_096
APP_CHARS_MAX: Final = 255

Token = Annotated[str, msgspec.Meta(min_length=1, max_length=TOKEN_CHARS_MAX)]
App = Annotated[str, msgspec.Meta(min_length=1, max_length=APP_CHARS_MAX)]


class DeviceTarget(Body, frozen=True):
    """The `subscription` that a browser made for `webpush`, or the `token` and the `app` that a
    phone has for `fcm` or `apns`."""

    provider: Literal["webpush", "fcm", "apns"]
    subscription: dict[str, Any] | None = None
    token: Token | None = None
    app: App | None = None


class PushDeviceRecord(msgspec.Struct):
    """A device that gets push notices. The token or the subscription is not shown."""

    device: str
    provider: str
    app: str | None
    created_at: str


class PushAvailability(msgspec.Struct):
    """How a device can register: the providers of the tenant, and the public key for browsers."""

    providers: list[str]
    vapid_public_key: str | None


class PushSettingsBody(Body, frozen=True):
    """The credentials of each provider that the tenant uses; a secret that is left out stays as it
    is, and Tidings makes the first one of a webhook. `content` says whether notices show who wrote
    what."""

    webpush: dict[str, Any] | None = None
    fcm: dict[str, Any] | None = None
    apns: dict[str, Any] | None = None
    webhook: dict[str, Any] | None = None
    content: ContentRule = "none"


class PushSettingsRecord(msgspec.Struct):
    """The push settings of a tenant, without secrets, except for a `secret` of the webhook that was
    made for this request. A provider that is not used is null."""

    content: ContentRule
    webpush: dict[str, Any] | None
    fcm: dict[str, Any] | None
    apns: dict[str, Any] | None
    webhook: dict[str, Any] | None
    updated_at: str | None


class PushTestBody(Body, frozen=True):
    """The user who gets the notice, on all devices or on one."""

    user_id: str
    device: Device | None = None


class PushTestRecord(msgspec.Struct):
    """What a push service answered. `device` is null for the tenant's webhook."""

    provider: str
    device: str | None
    outcome: Literal["sent", "gone", "not_sent", "refused", "unknown"]
    reason: str


class PushTestResult(msgspec.Struct):
    """One outcome for each device."""

    data: list[PushTestRecord]


@operation("GET", "/v1/push", tag=TAG, summary="Show how to register for push")
async def show_push(user: UserKey, push: PushVerbs) -> PushAvailability:
    """Return the providers for which devices of the tenant's users can register. A browser
    subscribes with `vapid_public_key`, which is null without Web Push."""
    found = await push.show(user)
    return PushAvailability(found.providers, cast(str | None, found.public.get("vapid_public_key")))


@operation(
    "PUT",
    "/v1/me/devices/{device}/push",
    tag=TAG,
    summary="Register a device for push",
    refusals=(PushOff, LimitReached),
)
async def register_device(
    caller: Caller, device: str, data: DeviceTarget, push: PushVerbs
) -> PushDeviceRecord:
    """Register a device, in place of its earlier registration. A token or subscription belongs to
    the last device that registered it. The registration ends with the session of the request. If
    nothing changes, nothing is written, and `created_at` stays."""
    given = {name: value for name, value in _fields(data).items() if value is not None}
    return _device_record(await push.register(caller, device, given))


@operation(
    "DELETE",
    "/v1/me/devices/{device}/push",
    tag=TAG,
    summary="End the push notices of a device",
    statuses=(204,),
)
async def end_device(caller: Caller, device: str, push: PushVerbs) -> None:
    """End the registration of a device, if there is one."""
    await push.register.end(caller, device)


@operation(
    "GET",
    "/v1/tenants/{tenant}/push",
    tag=TAG,
    summary="Show the push settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound,),
)
async def show_push_settings(caller: Caller, tenant: str, push: PushVerbs) -> PushSettingsRecord:
    """Return the settings. Secrets are never shown."""
    return _settings_record(await push.settings.show(caller, tenant))


@operation(
    "PUT",
    "/v1/tenants/{tenant}/push",
    tag=TAG,
    summary="Set the push settings of a tenant",
    key="tenant",
    refusals=(TenantNotFound, ProviderMissing),
    audit=Audited(quoted=("content",)),
)
async def set_push_settings(
    caller: Caller, tenant: str, data: PushSettingsBody, push: PushVerbs
) -> PushSettingsRecord:
    """Replace the settings. Providers that are not given are not used any more. Secrets are stored
    encrypted and not shown. If a webhook is given without a `secret` and has none yet, Tidings
    makes one, and only this answer shows it."""
    given = {name: value for name, value in _fields(data).items() if isinstance(value, dict)}
    credentials = cast(dict[ProviderName, dict[str, Any]], given)
    return _settings_record(await push.settings.put(caller, tenant, data.content, credentials))


@operation(
    "POST",
    "/v1/tenants/{tenant}/push/test",
    tag=TAG,
    summary="Send a test notice",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def send_test_notice(
    caller: Caller, tenant: str, data: PushTestBody, push: PushVerbs
) -> PushTestResult:
    """Send a notice to the devices of a user now, and return what the push services answered. The
    list is empty if the user has registered no device."""
    sent = await push.test(caller, tenant, data.user_id, data.device)
    return PushTestResult([_test_record(one) for one in sent])


def _test_record(sent: SentPush) -> PushTestRecord:
    outcome = sent.outcome
    assert outcome.kind != "outdated", "a test notice is about nothing that can change"
    return PushTestRecord(sent.provider, sent.device, outcome.kind, outcome.reason)


def _fields(body: Body) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__}


def _device_record(registration: PushRegistration) -> PushDeviceRecord:
    return PushDeviceRecord(
        registration.device,
        registration.provider,
        registration.app,
        rfc3339(registration.created_at),
    )


def _settings_record(shown: ShownPush) -> PushSettingsRecord:
    found = {name: dict(values) for name, values in shown.providers.items()}
    return PushSettingsRecord(
        content=shown.content,
        webpush=found.get("webpush"),
        fcm=found.get("fcm"),
        apns=found.get("apns"),
        webhook=found.get("webhook"),
        updated_at=None if shown.updated_at is None else rfc3339(shown.updated_at),
    )


OPERATIONS: Final = (
    show_push,
    register_device,
    end_device,
    show_push_settings,
    set_push_settings,
    send_test_notice,
)
