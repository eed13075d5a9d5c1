# SPDX-License-Identifier: Apache-2.0
"""Create, change, show and delete the webhook endpoints of a tenant, and replace their secrets."""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from tidings.actions.identity.caller import Caller, listing_owner
from tidings.actions.jobs.starting import StartJob
from tidings.actions.webhooks.directory import WebhookDirectory
from tidings.actions.webhooks.resuming import ResumeEndpoints
from tidings.model import webhooks as model
from tidings.model.outgoing_refusals import WebhookBusy, WebhookNotFound
from tidings.model.refusals import Invalid, LimitReached
from tidings.model.webhook_secrets import shown_secret
from tidings.model.webhooks import WEBHOOK, WebhookEndpoint, check_endpoint
from tidings.ports.people import Tenants
from tidings.ports.webhooks import Webhooks
from tidings.ports.world import Chance, Clock, new_ulid

Resume = Literal["place", "now"]
"""Where an endpoint continues after it was disabled: where it stopped, or with new events."""

_SECRET: Final = "webhook"
_CHANGES_MAX: Final = 5
"""Maximum number of attempts to change an endpoint that others change at the same time."""


def webhook_secret(digest: Callable[..., bytes], endpoint: WebhookEndpoint, salt: str) -> bytes:
    """Return a secret of an endpoint. It is derived from a secret of the deployment, so no secret
    is stored."""
    named = (_SECRET, endpoint.tenant, endpoint.webhook_id, salt)
    return digest(*named, "1") + digest(*named, "2")


class ConfigureWebhooks(msgspec.Struct, frozen=True):
    """The verbs with which a tenant manages its webhook endpoints."""

    store: Webhooks
    tenants: Tenants
    directory: WebhookDirectory
    digest: Callable[..., bytes]
    resume: ResumeEndpoints
    start_job: StartJob
    clock: Clock
    chance: Chance

    async def list(self, caller: Caller, tenant: str) -> list[WebhookEndpoint]:
        """Return all endpoints of the tenant.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
        """
        await listing_owner(self.tenants, caller, tenant)
        return await self.store.of(tenant)

    async def get(self, caller: Caller, tenant: str, webhook_id: str) -> WebhookEndpoint:
        """Return one endpoint.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
        """
        found = [one for one in await self.list(caller, tenant) if one.webhook_id == webhook_id]
        if not found:
            raise WebhookNotFound
        return found[0]

    async def put(
        self,
        caller: Caller,
        tenant: str,
        webhook_id: str,
        *,
        url: str,
        events: tuple[str, ...],
        enabled: bool,
        resume: Resume,
    ) -> tuple[WebhookEndpoint, str | None]:
        """Create or change an endpoint; return it, and its secret if it is new.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            Invalid: The address or the events are not valid.
            LimitReached: The tenant has too many endpoints.
            WebhookBusy: Others change the endpoint at the same time.
        """
        if WEBHOOK.fullmatch(webhook_id) is None:
            raise Invalid("the id of an endpoint has letters, digits, - and _, at most 64")
        check_endpoint(url, events)
        for _ in range(_CHANGES_MAX):
            known = {one.webhook_id: one for one in await self.list(caller, tenant)}
            before = known.get(webhook_id)
            if before is None:
                if len(known) >= model.ENDPOINTS_MAX:
                    raise LimitReached(f"a tenant has at most {model.ENDPOINTS_MAX} endpoints")
                made = self._made(tenant, webhook_id, url, events, enabled)
                if await self.store.add(made):
                    self.directory.forget(tenant)
                    return made, shown_secret(webhook_secret(self.digest, made, made.salt))
            else:
                changed = self._changed(before, url, events, enabled, resume)
                is_repeat = before.is_resuming and _is_same(before, changed)
                if is_repeat:
                    changed = before  # another job would find the same events once more
                if is_repeat or await self._replace(before, changed):
                    if changed.is_resuming:
                        await self.resume(changed)
                    return changed, None
        raise WebhookBusy

    def _made(
        self, tenant: str, webhook_id: str, url: str, events: tuple[str, ...], enabled: bool
    ) -> WebhookEndpoint:
        now = self.clock.now()
        return WebhookEndpoint(
            tenant=tenant,
            webhook_id=webhook_id,
            url=url,
            events=events,
            enabled=enabled,
            since=now,
            salt=new_ulid(self.clock, self.chance),
            disabled_at=None if enabled else now,
            disabled_by=None if enabled else "tenant",
            created_at=now,
            updated_at=now,
        )

    def _changed(
        self,
        before: WebhookEndpoint,
        url: str,
        events: tuple[str, ...],
        enabled: bool,
        resume: Resume,
    ) -> WebhookEndpoint:
        now, fields = self.clock.now(), dict[str, object]()
        if enabled and not before.enabled:
            fields = {"disabled_at": None, "disabled_by": None, "failing_since": None}
            if resume == "now":
                fields |= {"since": now}
            else:
                missed = before.resumes_from if before.is_resuming else before.disabled_at
                fields |= {"is_resuming": True, "resumes_from": missed}
        elif not enabled and before.enabled:
            fields = {"disabled_at": now, "disabled_by": "tenant"}
        return msgspec.structs.replace(
            before,
            url=url,
            events=events,
            enabled=enabled,
            updated_at=now,
            revision=before.revision + 1,
            **fields,
        )

    async def _replace(self, before: WebhookEndpoint, after: WebhookEndpoint) -> bool:
        is_stored = await self.store.change(before, after)
        self.directory.forget(before.tenant)
        return is_stored

    async def rotate(
        self, caller: Caller, tenant: str, webhook_id: str
    ) -> tuple[WebhookEndpoint, str]:
        """Make a new secret; return the endpoint and the secret.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
            WebhookBusy: Others change the endpoint at the same time.
        """
        for _ in range(_CHANGES_MAX):
            before, now = await self.get(caller, tenant, webhook_id), self.clock.now()
            after = msgspec.structs.replace(
                before,
                salt=new_ulid(self.clock, self.chance),
                previous_salt=before.salt,
                previous_until=now + model.PREVIOUS_SECRET_MS,
                # The job that resumes an endpoint has the time of the change in its id.
                updated_at=before.updated_at if before.is_resuming else now,
                revision=before.revision + 1,
            )
            if await self._replace(before, after):
                return after, shown_secret(webhook_secret(self.digest, after, after.salt))
        raise WebhookBusy

    async def delete(self, caller: Caller, tenant: str, webhook_id: str) -> None:
        """Delete an endpoint, with all that it is owed.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
            WebhookNotFound: The tenant has no such endpoint.
        """
        endpoint, now = await self.get(caller, tenant, webhook_id), self.clock.now()
        job_id = f"delete-webhook-{webhook_id}-{now}"
        await self.start_job(tenant, "webhook.delete", webhook_id, job_id, endpoint.place)
        await self.store.remove(endpoint, now)
        self.directory.forget(tenant)


def _is_same(before: WebhookEndpoint, after: WebhookEndpoint) -> bool:
    """Return True if the tenant has changed nothing."""
    names = ("url", "events", "enabled")
    return all(getattr(before, name) == getattr(after, name) for name in names)
