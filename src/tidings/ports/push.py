# SPDX-License-Identifier: Apache-2.0
"""Ports of push: what a notice says, and the providers that take it to devices.

A provider is an adapter in `outgoing/push`. It knows one push service, and checks what tenants and
users give for it. It stores nothing, decides nothing about whom to notify, and tries each notice
once. The caller keeps credentials and targets, claims a notice before it is sent, and repeats a
notice only after the outcome `not_sent`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from tidings.model.ids import ChatId, UserKey
from tidings.model.push import PushRegistration, PushSettings
from tidings.ports.delivery import EntryWritten, PushMute
from tidings.ports.people import Listed

ProviderName = Literal["webpush", "fcm", "apns", "webhook"]
DEVICE_PROVIDERS: Final = ("webpush", "fcm", "apns")
"""Providers for which a device registers. A webhook is registered by the tenant, for all users."""

PushCredentials = Mapping[str, object]
"""What a tenant gives for a provider, as a JSON object. It is stored encrypted."""

COLLAPSE_KEY_BYTES_MAX: Final = 64
"""Longest collapse key, which is the limit of APNs. Web Push takes half: its provider shortens it
with a digest."""


class PushTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a notice goes: the subscription of a browser, or the token of an app on a phone."""

    provider: ProviderName
    address: str
    """The endpoint of a subscription, or the token. No two devices have the same one."""
    keys: tuple[str, str] | None = None
    """The keys `p256dh` and `auth` of a subscription, in base64url without padding."""
    app: str | None = None
    """The app that registered a token: the project of FCM, the topic of APNs."""


class PushNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice for one device. It names what is new, and shows content only if the tenant says so.

    The kind `clear` shows nothing: it removes the notices with its collapse key, and sets the
    badge.
    """

    kind: Literal["message", "notification", "clear", "test"]
    data: Mapping[str, str]
    """What the app needs to find the news: `chat_id`, `sequence` and `message_id`, or `inbox` and
    `notification_id`. A value is always a text."""
    collapse_key: str
    """A later notice with the same key replaces this one. ASCII, at most `COLLAPSE_KEY_BYTES_MAX`
    bytes."""
    badge: int | None = None
    """Number of everything unread; None if it is not known."""
    title: str | None = None
    body: str | None = None
    """The name of the sender and the beginning of the content; None unless the tenant's `content`
    is `preview`."""
    ttl_seconds: int = 86_400
    """How long the push service keeps the notice for a device that is switched off."""


class PushOutcome(msgspec.Struct, frozen=True):
    """What became of one attempt."""

    kind: Literal["sent", "gone", "not_sent", "refused", "unknown", "outdated"]
    """- `sent`: the push service took it.
    - `gone`: the target does not exist any more (404, 410, Unregistered) and is to be removed.
    - `not_sent`: the answer proves that it was not sent, and a later attempt may succeed (429,
      503, no connection).
    - `refused`: the answer proves that it was not sent, and a later attempt would fail, too
      (wrong credentials, too large, an address that the operator does not allow).
    - `unknown`: there was no answer in time, or one that proves nothing. It is not repeated.
    - `outdated`: it was not sent, and before the next attempt there was nothing to notify of any
      more. No provider returns this.
    """
    reason: str = ""
    """A short text for logs and metrics, without tokens, addresses or content."""
    retry_after_ms: int | None = None
    """How long the push service asks to wait, after `not_sent`."""


StillWanted = Callable[[], Awaitable[bool]]
"""Returns whether a notice is still to be sent, when an attempt is repeated."""


class PushProvider(Protocol):
    """Takes notices to devices through one push service.

    Every request goes through `outgoing.guard`, and has a time limit.
    """

    name: ProviderName
    can_clear: bool
    """False if each notice has to show something, as with Web Push. No `clear` is then sent."""

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        """Check what a tenant gives, and return what is to be stored.

        Secrets that are left out are taken from what is stored, or made if the provider can make
        them: the keys of Web Push, and the `secret` of a webhook. A `secret` that was made is shown
        to the tenant once.

        Raises:
            Invalid: Something is missing or malformed. The pointer begins with `/<name>/`.
        """
        ...

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        """Return what the tenant may see of its credentials, which includes no secret."""
        ...

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        """Return what every user of the tenant needs to register: for Web Push
        `{"vapid_public_key": …}`, for others nothing."""
        ...

    def accept_target(self, given: Mapping[str, object]) -> PushTarget:
        """Check the body with which a device registers, and return the target.

        Raises:
            Invalid: The body is malformed, or the endpoint is no https address.
        """
        ...

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        """Post a notice once, within 10 seconds; failures are outcomes, not exceptions."""
        ...


class PushProviders(Protocol):
    """Finds the providers of this deployment, and loads the code of each when it is needed."""

    async def get(self, name: str) -> PushProvider | None:
        """Return the provider with this name; None if there is none."""
        ...

    async def close(self) -> None:
        """Close the connections of all providers."""
        ...


class PushStore(Protocol):
    """Stores registrations of devices, and the push settings of tenants. Writes are durable when
    they return.

    Each change appends a revocation of kind `push` to the revocation feed, in the same transaction.
    It names the user or the tenant.
    """

    async def register(self, registration: PushRegistration) -> UserKey | None:
        """Store a registration in place of the device's earlier one.

        If another device has the same target, that device is not registered any more. Returns its
        user, who may belong to another tenant.

        Raises:
            LimitReached: The user has registered `DEVICES_MAX` other devices.
        """
        ...

    async def of(self, user: UserKey) -> list[PushRegistration]:
        """Return the registrations of a user by device, from a strong read.

        Each of them has its target: a device that takes over a target removes the registration of
        the other one with the same write.
        """
        ...

    async def remove(
        self, user: UserKey, device: str, now: int, *, digest: str | None = None
    ) -> bool:
        """Remove the registration of a device; with `digest`, only if it has this target.

        Returns False if there is no such registration.
        """
        ...

    async def of_tenant(
        self, tenant: str, *, after: str | None, limit: int
    ) -> Listed[PushRegistration]:
        """Return registrations of a tenant's users in the order of users and devices, after a
        position or from the start."""
        ...

    async def put_settings(self, settings: PushSettings, before: PushSettings | None) -> bool:
        """Store the settings of a tenant; return False, and change nothing, if those that are
        stored are not `before`."""
        ...

    async def settings(self, tenant: str) -> PushSettings | None:
        """Return the settings of a tenant, from a strong read; None if it has none."""
        ...


class PushClaims(Protocol):
    """Claims notices of messages in the receipts of members, so that no notice is sent twice.

    Writes are durable when they return.
    """

    async def claim(
        self, user: UserKey, chat: ChatId, sequence: int, *, unless_delivered: bool
    ) -> bool:
        """Claim the notice of the messages up to a sequence; exactly one caller gets True.

        Returns False if the user is no member, has read the message, or has been notified of it.
        With `unless_delivered`, also if a device of the user has received it.
        """
        ...

    async def clear(self, user: UserKey, chat: ChatId, pushed: int) -> bool:
        """Forget that notices up to this sequence were sent; exactly one caller gets True.

        Returns False if a later notice was claimed meanwhile, or if another caller was first.
        """
        ...

    async def is_claimed(self, user: UserKey, chat: ChatId, sequence: int) -> bool:
        """Return True if a notice of this or a later message is claimed, and this one is unread.

        The read is strong.
        """
        ...

    async def mute(self, user: UserKey, chat: ChatId) -> PushMute | None:
        """Return the user's mute of the chat, from a strong read; None if there is none."""
        ...


class RecentChats(Protocol):
    """Finds the chats to which something was written shortly before this process started."""

    def note(self, written: Sequence[EntryWritten]) -> None:
        """Learn what the relay reads from the store's stream of changes. An engine without such a
        stream ignores it."""
        ...

    def written_since(self, since: int, *, of_everybody: bool) -> AsyncIterator[ChatId]:
        """Yield the chats that may have entries from between this time and the start of the
        process, each once. The time is at most a few minutes before the start.

        Without `of_everybody`, chats of tenants that never used push may be left out.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        ...


class PushPreferences(Protocol):
    """Knows when users want to be notified of messages."""

    async def allows(self, user: UserKey) -> bool:
        """Return True if the user may be notified of messages now.

        Raises:
            StoreUnavailable: The preferences cannot be read now.
        """
        ...


class LookingDevices(Protocol):
    """Knows the connections of this process, and whether somebody looks at their devices."""

    def is_looking(self, user: UserKey) -> bool:
        """Return True if the user has a connection whose device is not away."""
        ...

    def is_away(self, user: UserKey) -> bool:
        """Return True if the user has a connection whose device is away."""
        ...

    async def taken_up_to(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        """Return the last entry of a chat that a device has confirmed that is not away or, in a
        large chat, that was written to its socket; 0 if there is none."""
        ...
