# SPDX-License-Identifier: Apache-2.0
"""Reports of messages and users on SQLite."""

from typing import Final

import apsw

from tidings.model.reports import Report, ReportState
from tidings.ports.moderation import Reports
from tidings.ports.people import Listed
from tidings.stores.sqlite.engine.connections import Readers
from tidings.stores.sqlite.engine.rows import columns, from_row, insert, listed
from tidings.stores.sqlite.engine.writer import Writer

_REPORTS: Final = f"SELECT {columns(Report)} FROM reports"
_SAME: Final = """
SELECT report_id FROM reports
WHERE reporter = ? AND reported = ? AND chat_id IS ? AND sequence = ? AND expires_at > ?
"""
_ONE: Final = f"{_REPORTS} WHERE tenant = ? AND report_id = ? AND expires_at > ?"
_BELOW: Final = "expires_at > ? AND report_id < ? ORDER BY report_id DESC LIMIT ?"
_LAST: Final = "~"
"""Sorts after every report id."""


class SqliteReports:
    """Stores one row for each report. The sweeper removes expired rows."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def add(self, report: Report) -> str:
        subject = (report.reporter, report.reported, report.chat_id, report.sequence)

        def write(db: apsw.Connection) -> str:
            known: str | None = db.execute(_SAME, (*subject, report.created_at)).get
            if known is None:
                insert(db, "reports", report)
            return known or report.report_id

        return await self._writer.write(write)

    async def find(self, tenant: str, report_id: str, now: int) -> Report | None:
        return await self._readers.read(lambda db: _find(db, tenant, report_id, now))

    async def page(
        self, tenant: str, state: ReportState | None, *, below: str | None, limit: int, now: int
    ) -> Listed[Report]:
        where, values = "tenant = ?", [tenant]
        if state is not None:
            where, values = f"{where} AND state = ?", [tenant, state]

        def read(db: apsw.Connection) -> Listed[Report]:
            statement = f"{_REPORTS} WHERE {where} AND {_BELOW}"
            rows = db.execute(statement, (*values, now, below or _LAST, limit + 1))
            found = [from_row(Report, row) for row in rows]
            return listed(found, limit, lambda report: report.report_id)

        return await self._readers.read(read)

    async def change(self, before: Report, after: Report) -> bool:
        def write(db: apsw.Connection) -> bool:
            if _find(db, before.tenant, before.report_id, 0) != before:
                return False
            insert(db, "reports", after, replace=True)
            return True

        return await self._writer.write(write)


def _find(db: apsw.Connection, tenant: str, report_id: str, now: int) -> Report | None:
    row = db.execute(_ONE, (tenant, report_id, now)).fetchone()
    return None if row is None else from_row(Report, row)


_conforms: type[Reports] = SqliteReports
