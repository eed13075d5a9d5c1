# SPDX-License-Identifier: Apache-2.0
"""Records every administrative operation in the audit trail, and lists the trail.

The declaration of an operation turns recording on, so that no handler can forget it. An operation
that is not recorded declares the reason.
"""

import re
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request

from tidings.actions.identity.audit import (
    AuditTrail,
    Intent,
    ReadAudit,
    RecordedAct,
    actor_of,
    is_certain,
)
from tidings.actions.identity.caller import Caller, Root, TenantCaller
from tidings.actions.identity.signing_keys import KEY_ID
from tidings.actions.inbox.posted import ASIDE
from tidings.api.access import request_id
from tidings.api.fields import Limit
from tidings.api.operations import Answer, Audited, Operation, operation
from tidings.api.requests import Query
from tidings.model import limits
from tidings.model.ids import rfc3339
from tidings.model.refusals import CursorInvalid, Refusal, TenantNotFound
from tidings.ports.audit import Actor
from tidings.ports.world import Chance

TAG: Final = "Audit"

_NAME: Final = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
_NUMBER_MAX: Final = 100_000
_WORD: Final = re.compile(r"[a-z]{1,10}")
_FORMS: Final = {
    "aside_id": ASIDE,
    "key_id": re.compile(r"[0-9a-f]{16}|" + KEY_ID.pattern),
    "signing_key_id": KEY_ID,
}
"""Pattern of each kind of target. A text that does not match is recorded as `?`, because it may be
a whole key that somebody sent instead of its id."""


class AuditQuery(Query, frozen=True):
    """Which part of the audit trail to list."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class AuditRecord(msgspec.Struct):
    """One administrative operation: its name, when it happened, who requested it (with the id of
    the tenant key), which fields were sent, its target and its outcome. The outcome is `unknown` if
    the server did not record how the operation ended."""

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
    """Return the administrative operations on the tenant in the last 400 days, newest first,
    including those of the root key."""
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


class Recorder:
    """Calls the handlers of administrative operations and records the calls."""

    def __init__(self, trail: AuditTrail, chance: Chance) -> None:
        self._trail = trail
        self._chance = chance

    async def record(
        self, audited: Audited, operation: Operation, request: Request, given: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - what the handler answers
        """Call the handler and record the operation.

        Nothing is recorded if the operation needs another kind of credential than the caller has.
        """
        caller: Caller = request.user
        actor = actor_of(caller)
        if actor is None or (operation.key == "root" and not isinstance(caller, Root)):
            return await operation.handler(**given)
        path, body = request.path_params, given.get("data", given.get("asked"))
        if audited.continued_by and getattr(body, audited.continued_by) is not None:
            return await operation.handler(**given)
        intent = Intent(*actor, operation.name, _tenant(path, caller), _sent_fields(body, audited))
        names = [name for name in operation.path_parameters if name != "tenant"]
        named = [_part(name, path[name]) for name in names]
        target = _target(named, audited.target, body)
        called = request_id(request.scope, self._chance)
        if audited.is_frequent:
            about = {"target": target, "request_id": called}
            return await self._record_after(intent, about, operation.handler(**given))
        async with self._trail.act(intent, target, called) as recorded:
            answer = await operation.handler(**given)
            if audited.target is not None and target == _target(named, None, None):
                recorded.target = _target(named, audited.target, _content(answer))
        return answer

    async def _record_after(
        self, intent: Intent, about: dict[str, str | None], acting: Awaitable[Any]
    ) -> Any:  # noqa: ANN401
        try:
            answer = await acting
        except Refusal as refusal:
            if is_certain(refusal):
                await self._trail.add(intent, "refused", refusal.code, **about)
            raise
        await self._trail.add(intent, "done", **about)
        return answer


def _tenant(path: Mapping[str, Any], caller: Caller) -> str:
    if "tenant" not in path:
        return caller.tenant if isinstance(caller, TenantCaller) else ""
    tenant: str = path["tenant"]
    return tenant if _NAME.fullmatch(tenant) else ""


def _target(path: list[str], name: str | None, source: object) -> str | None:
    """Return the parts of the target, joined with slashes; None if no part is known (yet)."""
    value = getattr(source, name, None) if name else None
    own = [_part(name, value)] if name and isinstance(value, str) else []
    return "/".join([*path, *own]) or None


def _part(name: str, value: str) -> str:
    return value if _FORMS.get(name, _NAME).fullmatch(value) else "?"


def _sent_fields(body: object, audited: Audited) -> tuple[str, ...]:
    if not isinstance(body, dict):
        return _fields(body, audited.quoted)
    found = ((name, _within(body, name)) for name in audited.settings)
    return tuple(f"{name}={str(value).lower()}" for name, value in found if _is_plain(value))


def _within(body: object, name: str) -> object:
    for part in name.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _is_plain(value: object) -> bool:
    """Return True if the value cannot be secret: it is a boolean, a small number or a word."""
    if isinstance(value, int):
        return 0 <= value < _NUMBER_MAX
    return isinstance(value, str) and bool(_WORD.fullmatch(value))


def _fields(body: object, quoted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the fields that were sent.

    Booleans and the fields in `quoted` are returned with their values, because they are never
    secret.
    """
    if not isinstance(body, msgspec.Struct):
        return ()
    kind = type(body)
    defaults = dict(zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1], strict=False))
    sent = []
    for name in kind.__struct_fields__:
        value = getattr(body, name)
        if name in defaults and value == defaults[name]:
            continue
        if isinstance(value, bool):
            sent.append(f"{name}={str(value).lower()}")
        else:
            sent.append(f"{name}={value}" if name in quoted else name)
    return tuple(sent)


def _content(answer: object) -> object:
    return answer.content if isinstance(answer, Answer) else answer
