# SPDX-License-Identifier: Apache-2.0
"""Send a notice to the devices of a user, and remove devices that are gone.

A notice is repeated only after an answer that proves that it was not sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from tidings.actions.identity.credential_status import is_session_valid, is_user_valid
from tidings.actions.push.directory import PushDirectory, PushSeal, TenantPush
from tidings.actions.push.journal import PushJournal
from tidings.metrics import declared
from tidings.model.ids import UserKey, tenant_of, user_id
from tidings.model.limits import SECOND_MS
from tidings.model.push import PushRegistration
from tidings.model.push_results import AttemptResult
from tidings.model.refusals import StoreUnavailable, Unavailable
from tidings.ports.push import (
    PushNotice,
    PushOutcome,
    PushProvider,
    PushProviders,
    PushStore,
    PushTarget,
    StillWanted,
)
from tidings.ports.sessions import Sessions
from tidings.ports.world import Clock

log = logging.getLogger("tidings.push")

ATTEMPTS_MAX: Final = 3
RETRY_AFTER_MS_MAX: Final = 30 * SECOND_MS
"""Longest wait before another attempt. If a push service asks for more, the notice is given up."""
WEBHOOK: Final = "webhook"
_ENDED: Final = PushOutcome("refused", "the session of the device has ended")
_STORE_UNAVAILABLE: Final = PushOutcome("not_sent", "the store does not answer")
_OUTDATED: Final = PushOutcome("outdated", "there is nothing to notify of any more")
_UNKNOWN_PROVIDER: Final = PushOutcome("refused", "the provider is not configured")


class SentPush(msgspec.Struct, frozen=True):
    """What became of the notice to one device."""

    provider: str
    device: str | None
    """None for the tenant's webhook, which gets one notice for each user."""
    outcome: PushOutcome

    @property
    def place(self) -> str:
        """What the notice was sent to, in words."""
        if self.device is None:
            return "the webhook of the tenant"
        return f"device {self.device} by {self.provider}"


class SendPush(msgspec.Struct, frozen=True):
    """Send notices to users."""

    store: PushStore
    directory: PushDirectory
    providers: PushProviders
    seal: PushSeal
    sessions: Sessions
    clock: Clock
    back_off: Callable[[int], Awaitable[None]]
    journal: PushJournal

    @property
    def is_off(self) -> Callable[[str], bool]:
        """Returns True if it is known, without a read, that no user of a tenant is reachable."""
        return self.directory.is_off

    async def is_on(self, tenant: str) -> bool:
        """Return True if the tenant has a provider, so that some of its users may be reachable.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        return bool((await self.directory.tenant(tenant)).credentials)

    async def is_reachable(self, user: UserKey) -> bool:
        """Return True if the user has a device, or the user's tenant a webhook.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        settings = await self.directory.tenant(tenant_of(user))
        if not settings.credentials:
            return False
        return WEBHOOK in settings.credentials or bool(await self.directory.devices(user))

    async def __call__(
        self,
        user: UserKey,
        notice: PushNotice,
        device: str | None = None,
        *,
        still: StillWanted | None = None,
    ) -> list[SentPush]:
        """Send a notice to all devices of a user, or to one, and return the outcomes; none if there
        is no device.

        An attempt is repeated only if `still` returns True then.

        Raises:
            StoreUnavailable: The store cannot be read now; nothing was sent.
        """
        settings = await self.directory.tenant(tenant_of(user))
        devices = await self.directory.devices(user) if settings.credentials else ()
        if device is not None:
            devices = tuple(one for one in devices if one.device == device)
        sends = [self._to_device(settings, one, notice, still) for one in devices]
        if WEBHOOK in settings.credentials and device is None:
            sends.append(self._to_webhook(settings, user, notice, still))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(send) for send in sends]
        return [sent for task in tasks if (sent := task.result()) is not None]

    async def _to_device(
        self,
        settings: TenantPush,
        device: PushRegistration,
        notice: PushNotice,
        still: StillWanted | None,
    ) -> SentPush | None:
        provider = await self.providers.get(device.provider)
        if provider is not None and notice.kind == "clear" and not provider.can_clear:
            return None
        target = self.seal.open_target(device)
        if provider is None or target is None or device.provider not in settings.credentials:
            outcome = _UNKNOWN_PROVIDER
        else:
            again = partial(self._may_repeat, device, still)
            send = partial(self._attempts, provider, settings, target, notice, again)
            outcome = await self._to_valid(device, send)
        if outcome is _ENDED or outcome.kind == "gone":
            await self._remove(device)
        return self._reported(
            device.user_id, notice, SentPush(device.provider, device.device, outcome)
        )

    async def _to_valid(
        self, device: PushRegistration, send: Callable[[], Awaitable[PushOutcome]]
    ) -> PushOutcome:
        """Send a notice to a device, unless the device may no longer get notices."""
        try:
            is_valid = await self._is_valid(device)
        except StoreUnavailable:
            return _STORE_UNAVAILABLE
        return await send() if is_valid else _ENDED

    async def _to_webhook(
        self, settings: TenantPush, user: UserKey, notice: PushNotice, still: StillWanted | None
    ) -> SentPush | None:
        provider = await self.providers.get(WEBHOOK)
        if provider is None:
            return None
        target = PushTarget(provider=WEBHOOK, address=user_id(user))
        outcome = await self._attempts(provider, settings, target, notice, still)
        return self._reported(user, notice, SentPush(WEBHOOK, None, outcome))

    async def _attempts(
        self,
        provider: PushProvider,
        settings: TenantPush,
        target: PushTarget,
        notice: PushNotice,
        still: StillWanted | None,
    ) -> PushOutcome:
        credentials = settings.credentials[provider.name]
        for attempt in range(1, ATTEMPTS_MAX):
            outcome = await provider.send(credentials, target, notice)
            wait_ms = outcome.retry_after_ms
            if outcome.kind != "not_sent" or (wait_ms or 0) > RETRY_AFTER_MS_MAX:
                return outcome
            if wait_ms is None:
                await self.back_off(attempt)
            else:
                await asyncio.sleep(wait_ms / SECOND_MS)
            if still is not None and not await _is_wanted(still):
                return _OUTDATED
        return await provider.send(credentials, target, notice)

    async def _may_repeat(self, device: PushRegistration, still: StillWanted | None) -> bool:
        """Return True if another attempt may be made: the notice is still wanted, the device has
        not been registered for somebody else, and its session has not ended."""
        if still is not None and not await still():
            return False
        known = await self.directory.devices(device.user_id)
        is_known = any((one.device, one.digest) == (device.device, device.digest) for one in known)
        return is_known and await self._is_valid(device)

    async def _is_valid(self, device: PushRegistration) -> bool:
        """Return True if the user is active, and the session that registered the device is
        valid."""
        stored = await self.sessions.stored_credentials(device.user_id, device.session_id)
        if device.session_id is None:
            return is_user_valid(stored, device.created_at)
        return is_session_valid(device.user_id, stored, self.clock.now())

    async def _remove(self, device: PushRegistration) -> None:
        """Remove a device, unless it has registered another target meanwhile. If this fails, the
        next notice finds the device gone again."""
        with suppress(StoreUnavailable):
            await self.store.remove(
                device.user_id, device.device, self.clock.now(), digest=device.digest
            )
            self.directory.changed(device.user_id)

    def _reported(self, user: UserKey, notice: PushNotice, sent: SentPush) -> SentPush:
        """Return the outcome after it was counted, kept in the journal, and logged if it is a
        failure."""
        outcome = sent.outcome
        result: AttemptResult = "ended" if outcome is _ENDED else outcome.kind
        declared.push.counts[result] += 1
        self.journal.attempted(user, notice, result, sent.place, outcome.reason)
        if result in ("refused", "unknown", "not_sent"):
            extra = {
                "action": "push_not_sent",
                "tenant": tenant_of(user),
                "provider": sent.provider,
                "outcome": outcome.kind,
                "reason": outcome.reason,
            }
            log.warning("a push notice was not sent", extra=extra)
        return sent


async def _is_wanted(still: StillWanted) -> bool:
    """Return True if a notice is still to be sent; if the store does not answer, it is not."""
    try:
        return await still()
    except Unavailable:
        return False
