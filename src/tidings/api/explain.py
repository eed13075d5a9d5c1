# SPDX-License-Identifier: Apache-2.0
"""Operations that explain what became of a message, and trace deliveries while they happen."""

from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.explain.explaining import Explain
from tidings.actions.identity.caller import Caller
from tidings.api.operations import Audited, operation
from tidings.api.requests import Query
from tidings.model import limits
from tidings.model.explaining import NEXT_STEPS, Code, Explanation, Moment, What
from tidings.model.ids import rfc3339, user_id
from tidings.model.refusals import (
    ChatNotFound,
    CursorInvalid,
    InboxNotFound,
    TenantNotFound,
    UserNotFound,
)
from tidings.ports.journals import TraceStep

TAG: Final = "Explain"
UNKNOWN: Final = "unknown"
"""Value of a time or a place that the server does not know."""


class ExplainQuery(Query, frozen=True, kw_only=True):
    """Whose delivery to explain, and of what: a message by `message_id`, a notification by
    `notification_id` (with its `inbox`, if several inboxes have this id), or a request that may
    have made no message, by its `X-Request-Id` as `request_id`."""

    user_id: str
    message_id: str | None = None
    notification_id: str | None = None
    inbox: str | None = None
    request_id: str | None = None


class MomentRecord(msgspec.Struct):
    """A step on the way. `at` is a time, or `unknown`; `where` is a place, such as a device or a
    sequence of the log, or `unknown`."""

    at: str
    what: What
    where: str


class ExplanationRecord(msgspec.Struct):
    """What became of a message: one sentence, its stable code, since when it holds (or `unknown`),
    the steps that are known, by time, and what can be done about it, if there is something."""

    verdict: str
    code: Code
    since: str
    timeline: list[MomentRecord]
    next_step: str | None


@operation(
    "GET",
    "/v1/tenants/{tenant}/explain",
    tag=TAG,
    summary="Explain why a message did not arrive",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound, InboxNotFound),
    audit=Audited(target="user_id", is_frequent=True),
    cost=rate_limits.page_cost(limits.TAIL_ENTRIES_MAX),
)
async def explain(
    caller: Caller, tenant: str, asked: ExplainQuery, explaining: Explain
) -> ExplanationRecord:
    """Return what became of a message or notification on its way to a user, as far as the server
    knows. What it does not keep is `unknown`. The answer contains no content."""
    return _record(
        await explaining(
            caller,
            tenant,
            asked.user_id,
            message_id=asked.message_id,
            notification_id=asked.notification_id,
            inbox=asked.inbox,
            request_id=asked.request_id,
        )
    )


class TraceQuery(Query, frozen=True, kw_only=True):
    """Whose delivery to trace, or in which chat; `cursor` is from the previous answer."""

    user_id: str | None = None
    chat_id: str | None = None
    cursor: str | None = None

    @property
    def subject(self) -> str | None:
        """The user or chat, for the audit trail."""
        return self.chat_id if self.user_id is None else self.user_id


class TraceStepRecord(msgspec.Struct, kw_only=True):
    """A step of delivery, or a request that was refused or repeated. `sequence` is the last entry
    that it concerns."""

    at: str
    what: str
    where: str
    user_id: str | None
    chat_id: str | None
    sequence: int | None


class TraceRecord(msgspec.Struct):
    """Steps in order. The next request with `next_cursor` returns those that follow. If `complete`
    is false, there were too many steps, and the oldest are missing."""

    data: list[TraceStepRecord]
    next_cursor: str
    complete: bool


@operation(
    "GET",
    "/v1/tenants/{tenant}/trace",
    tag=TAG,
    summary="Trace deliveries while they happen",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound, ChatNotFound, CursorInvalid),
    audit=Audited(target="subject", continued_by="cursor", is_frequent=True),
    cost=rate_limits.page_cost(limits.PAGE_MAX),
)
async def trace(caller: Caller, tenant: str, asked: TraceQuery, explaining: Explain) -> TraceRecord:
    """Return the last steps of delivery to a user or in a chat: first those of the last minute,
    then, with the cursor, those that followed. A step is shown when it is a second old. Nothing is
    recorded for a trace, and it contains no content. The audit trail has its first request."""
    found = await explaining.trace(caller, tenant, asked.user_id, asked.chat_id, asked.cursor)
    return TraceRecord([_step(step) for step in found.steps], found.cursor, found.is_complete)


def _step(step: TraceStep) -> TraceStepRecord:
    return TraceStepRecord(
        at=rfc3339(step.at),
        what=step.what,
        where=step.where,
        user_id=None if step.user is None else user_id(step.user),
        chat_id=step.chat,
        sequence=step.sequence,
    )


def _record(explanation: Explanation) -> ExplanationRecord:
    verdict = explanation.verdict
    return ExplanationRecord(
        verdict=verdict.sentence,
        code=verdict.code,
        since=_time(verdict.since),
        timeline=[_moment(moment) for moment in explanation.timeline],
        next_step=NEXT_STEPS.get(verdict.code),
    )


def _moment(moment: Moment) -> MomentRecord:
    return MomentRecord(_time(moment.at), moment.what, moment.where or UNKNOWN)


def _time(time: int | None) -> str:
    return UNKNOWN if time is None else rfc3339(time)


OPERATIONS: Final = (explain, trace)
