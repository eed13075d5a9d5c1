# SPDX-License-Identifier: Apache-2.0
"""Reports of messages and users on DynamoDB: expiring items in the table of claimed keys.

The reports of a tenant in one state have a partition, sorted by time. A second item of each report
claims its subject for its reporter.
"""

from functools import partial
from typing import Any, Final

from tidings.model import limits
from tidings.model.refusals import StoreUnavailable
from tidings.model.reports import REPORT_STATES, Report, ReportState
from tidings.ports.moderation import Reports
from tidings.ports.people import Listed
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import Canceled, Item, gather_bounded
from tidings.stores.dynamodb.client.writes import Delete, Put, Write
from tidings.stores.dynamodb.identity.identity_patterns import (
    ADD_REPORT,
    CHANGE_REPORT,
    FIND_REPORT,
    LIST_REPORTS,
    READ_REPORTED,
)
from tidings.stores.dynamodb.tables import TTL, reports_of, ttl_seconds

_TABLE: Final = "idempotency_keys"
_LAST: Final = "~"
"""Sorts after every report id."""
_IS_SAME: Final = "attribute_exists(#claim) AND #updated_at = :updated_at"
_IS_UNTOUCHED: Final = "attribute_exists(#claim) AND attribute_not_exists(#updated_at)"


class DynamoReports:
    """Stores two items for each report."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def add(self, report: Report) -> str:
        item, claim = report_items(report)
        is_free = "attribute_not_exists(#claim) OR #expires_at <= :now"
        writes = [Put(_TABLE, item), Put(_TABLE, claim, is_free, {":now": report.created_at})]
        async for _ in self._dynamo.retrying.attempts(limits.SLOT_ATTEMPTS_MAX):
            try:
                await self._dynamo.transact(ADD_REPORT, writes)
            except Canceled:
                known = await self._dynamo.get(READ_REPORTED, _claim_key(report))
                if known is not None and known["expires_at"] > report.created_at:
                    return str(known["report_id"])
            else:
                return report.report_id
        raise StoreUnavailable

    async def find(self, tenant: str, report_id: str, now: int) -> Report | None:
        keys = [_key(tenant, state, report_id) for state in REPORT_STATES]
        found = await self._dynamo.batch_get(FIND_REPORT, keys)
        unexpired = [item for item in found if item["expires_at"] > now]
        return to_report(unexpired[0]) if unexpired else None

    async def page(
        self, tenant: str, state: ReportState | None, *, below: str | None, limit: int, now: int
    ) -> Listed[Report]:
        states = REPORT_STATES if state is None else (state,)
        found = await gather_bounded(
            partial(self._part, tenant, one, below or _LAST, limit, now) for one in states
        )
        rows = [to_report(item) for part in found for item in part]
        rows.sort(key=lambda report: report.report_id, reverse=True)
        page = rows[:limit]
        return Listed(page, page[-1].report_id if len(rows) > limit else None)

    async def _part(
        self, tenant: str, state: ReportState, below: str, limit: int, now: int
    ) -> list[Item]:
        found = await self._dynamo.query(
            LIST_REPORTS,
            "#chat_id = :partition AND #claim < :below",
            {":partition": reports_of(tenant, state), ":below": below},
            limit=limit + 1,
            backwards=True,
        )
        # All reports live equally long, so those that have expired are the last ones.
        return [item for item in found if item["expires_at"] > now]

    async def change(self, before: Report, after: Report) -> bool:
        item, _ = report_items(after)
        condition, values = _IS_UNTOUCHED, dict[str, Any]()
        if before.updated_at is not None:
            condition, values = _IS_SAME, {":updated_at": before.updated_at}
        writes: list[Write] = [Put(_TABLE, item, condition, values)]
        if before.state != after.state:
            key = _key(before.tenant, before.state, before.report_id)
            writes = [Put(_TABLE, item), Delete(_TABLE, key, condition, values)]
        try:
            await self._dynamo.transact(CHANGE_REPORT, writes)
        except Canceled:
            return False
        return True


def _key(tenant: str, state: ReportState, report_id: str) -> Item:
    return {"chat_id": reports_of(tenant, state), "claim": report_id}


def _claim_key(report: Report) -> Item:
    return {"chat_id": reports_of(report.tenant, f"by#{report.reporter}"), "claim": report.subject}


def report_items(report: Report) -> tuple[Item, Item]:
    """Return the item of a report, and the one that claims its subject for its reporter."""
    fields = {name: getattr(report, name) for name in Report.__struct_fields__}
    named = {"subject_chat": fields.pop("chat_id"), **fields}
    values: Item = {name: value for name, value in named.items() if value is not None}
    ttl = {TTL: ttl_seconds(report.expires_at)}
    claim = {"report_id": report.report_id, "expires_at": report.expires_at, **ttl}
    return (
        {**_key(report.tenant, report.state, report.report_id), **values, **ttl},
        {**_claim_key(report), **claim},
    )


def to_report(item: Item) -> Report:
    """Convert a stored item to a `Report`."""
    named = {**item, "chat_id": item.get("subject_chat")}
    fields = {name: named[name] for name in Report.__struct_fields__ if name in named}
    return Report(**fields)


_conforms: type[Reports] = DynamoReports
