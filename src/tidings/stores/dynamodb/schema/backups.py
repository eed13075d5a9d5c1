# SPDX-License-Identifier: Apache-2.0
"""Daily backups, as values: which tables, kept for how long."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidings.stores.dynamodb.tables import TABLES, Table

DAILY: Final = "cron(0 3 * * ? *)"
"""At three in the morning, UTC."""


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """Tables whose daily backups are kept equally long."""

    days: int
    tables: tuple[Table, ...]

    @property
    def name(self) -> str:
        """Unique within the deployment."""
        return f"daily-kept-{self.days}-days"


def backup_plans() -> Iterator[BackupPlan]:
    """One plan for each length of time, longest first."""
    for days in sorted({t.backup_days for t in TABLES if t.backup_days}, reverse=True):
        yield BackupPlan(days, tuple(table for table in TABLES if table.backup_days == days))
