# SPDX-License-Identifier: Apache-2.0
"""The audit trail: which administrative acts there were."""

from typing import Final, Literal

import msgspec

from tidings.actions.identity.audit_reading import ReadAudit, RecordedAct
from tidings.actions.identity.caller import Caller
from tidings.api.fields import Limit
from tidings.api.operations import operation
from tidings.api.requests import Query
from tidings.model import limits
from tidings.model.audit import Actor
from tidings.model.refusals import CursorInvalid, TenantNotFound
from tidings.model.times import rfc3339

TAG: Final = "Audit"


class AuditQuery(Query, frozen=True):
    """Which part of the trail."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class AuditRecord(msgspec.Struct):
    """An administrative act: who (`actor`, and of a tenant key its id), what (the operation's
    name, and which fields were sent), on what, when, and what came of it. `unknown`: it was begun,
    and nobody recorded its end."""

    id: str
    at: str
    actor: Actor
    actor_id: str | None
    action: str
    tenant: str | None
    target: str | None
    fields: list[str]
    outcome: Literal["done", "refused", "failed", "unknown"]
    code: str | None
    request_id: str | None


class AuditList(msgspec.Struct):
    """Some of the acts, and where the list goes on."""

    data: list[AuditRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/audit",
    tag=TAG,
    summary="List the administrative acts of a tenant",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
)
async def list_tenant_audit(
    caller: Caller,
    tenant: str,
    asked: AuditQuery,
    audit_reading: ReadAudit,
) -> AuditList:
    """What was done to the tenant in the last 400 days, by its own keys and by root, newest
    first."""
    return _list(*await audit_reading.of_tenant(caller, tenant, asked.cursor, asked.limit))


@operation(
    "GET",
    "/v1/audit",
    tag=TAG,
    summary="List all administrative acts",
    key="root",
    refusals=(CursorInvalid,),
)
async def list_audit(caller: Caller, asked: AuditQuery, audit_reading: ReadAudit) -> AuditList:
    """Of all tenants and of the deployment, in the last 400 days, newest first."""
    return _list(*await audit_reading.of_all(caller, asked.cursor, asked.limit))


def _list(acts: list[RecordedAct], cursor: str | None) -> AuditList:
    return AuditList([_record(one) for one in acts], cursor)


def _record(one: RecordedAct) -> AuditRecord:
    entry = one.entry
    return AuditRecord(
        id=one.act_id,
        at=rfc3339(one.act.at),
        actor=entry.actor,
        actor_id=entry.actor_id,
        action=entry.action,
        tenant=entry.tenant or None,
        target=one.act.target,
        fields=list(entry.fields),
        outcome=entry.outcome or "unknown",
        code=entry.code,
        request_id=one.act.request_id,
    )


OPERATIONS: Final = (list_tenant_audit, list_audit)
