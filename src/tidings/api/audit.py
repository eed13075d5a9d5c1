# SPDX-License-Identifier: Apache-2.0
"""Reading the audit trail of administrative operations."""

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
    """Which part of the audit trail to list."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class AuditRecord(msgspec.Struct):
    """An administrative operation: by whom (`actor`, and the id of a tenant key), what (the
    operation's name and the fields that were sent), on which target, when, and with which outcome.
    The outcome is `unknown` if the operation was started and its end was not recorded."""

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
    """A page of the audit trail; `next_cursor` is null on the last page."""

    data: list[AuditRecord]
    next_cursor: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/audit",
    tag=TAG,
    summary="List the administrative operations of a tenant",
    key="tenant",
    refusals=(TenantNotFound, CursorInvalid),
)
async def list_tenant_audit(
    caller: Caller,
    tenant: str,
    asked: AuditQuery,
    audit_reading: ReadAudit,
) -> AuditList:
    """Return what root and the tenant's keys did to the tenant in the last 400 days, newest
    first."""
    return _list(*await audit_reading.of_tenant(caller, tenant, asked.cursor, asked.limit))


@operation(
    "GET",
    "/v1/audit",
    tag=TAG,
    summary="List all administrative operations",
    key="root",
    refusals=(CursorInvalid,),
)
async def list_audit(caller: Caller, asked: AuditQuery, audit_reading: ReadAudit) -> AuditList:
    """Return the administrative operations on all tenants and on the deployment in the last 400
    days, newest first."""
    return _list(*await audit_reading.of_all(caller, asked.cursor, asked.limit))


def _list(acts: list[RecordedAct], cursor: str | None) -> AuditList:
    return AuditList([_record(recorded) for recorded in acts], cursor)


def _record(recorded: RecordedAct) -> AuditRecord:
    entry = recorded.entry
    return AuditRecord(
        id=recorded.act_id,
        at=rfc3339(recorded.act.at),
        actor=entry.actor,
        actor_id=entry.actor_id,
        action=entry.action,
        tenant=entry.tenant or None,
        target=recorded.act.target,
        fields=list(entry.fields),
        outcome=entry.outcome or "unknown",
        code=entry.code,
        request_id=recorded.act.request_id,
    )


OPERATIONS: Final = (list_tenant_audit, list_audit)
