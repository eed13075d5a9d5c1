# SPDX-License-Identifier: Apache-2.0
"""Compares and creates the daily backups of the tables in AWS Backup: a vault, plans, selections.

A plan needs a role with which AWS Backup reads the tables. Roles belong to the account and not to
this program: the operator names one, or deploys the template, which has its own.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from tidings.stores.dynamodb.schema.alarms import DAILY, BackupPlan, backup_plans
from tidings.stores.dynamodb.schema.services import ServiceDifference

_NO_ROLE: Final = (
    "name a role for AWS Backup with --backup-role, or let the template of the tables do it"
)


class Backups:
    """Compares and creates the backups of one deployment, in AWS Backup."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the SDK has no types
        prefix: str,
        arns: Mapping[str, str],
        role: str | None,
    ) -> None:
        """Set up the comparison; AWS Backup uses `role`, and `arns` has the ARN of each table by
        its name."""
        self._client = client
        self._prefix = prefix
        self._arns = arns
        self._role = role
        self._vault = prefix + "backups"

    async def differences(self) -> list[ServiceDifference]:
        """Return everything about the backups that is not as declared."""
        found = await self._in_vault()
        pages = self._client.get_paginator("list_backup_plans").paginate()
        there = {
            one["BackupPlanName"]: one["BackupPlanId"]
            async for page in pages
            for one in page["BackupPlansList"]
        }
        for plan in backup_plans():
            found += await self._in_plan(plan, there.get(self._prefix + plan.name))
        return found

    async def _in_vault(self) -> list[ServiceDifference]:
        pages = self._client.get_paginator("list_backup_vaults").paginate()
        names = [one["BackupVaultName"] async for page in pages for one in page["BackupVaultList"]]
        if self._vault in names:
            return []
        return [
            ServiceDifference(
                f"backup vault {self._vault}",
                "there is no such vault",
                lambda: self._client.create_backup_vault(BackupVaultName=self._vault),
            )
        ]

    async def _in_plan(self, plan: BackupPlan, plan_id: str | None) -> list[ServiceDifference]:
        subject = f"backup plan {self._prefix}{plan.name}"
        if plan_id is None:
            return [ServiceDifference(subject, "there is no such plan", self._creating(plan))]
        found = []
        answer = await self._client.get_backup_plan(BackupPlanId=plan_id)
        if not self._is_declared(plan, answer["BackupPlan"]["Rules"]):
            says = f"its rule is not: every day, into {self._vault}, kept for {plan.days} days"
            found.append(ServiceDifference(subject, says, self._updating(plan, plan_id)))
        selected = await self._selected(plan_id)
        wanted = [self._arns[table.name] for table in plan.tables if table.name in self._arns]
        missing = [arn for arn in wanted if arn not in selected]
        if missing:
            names = ", ".join(arn.rpartition("/")[2] for arn in missing)
            cure = self._selecting(plan, plan_id, missing) if self._role else None
            says = f"it does not back up {names}" + ("" if cure else f": {_NO_ROLE}")
            found.append(ServiceDifference(subject, says, cure))
        return found

    async def _selected(self, plan_id: str) -> set[str]:
        pages = self._client.get_paginator("list_backup_selections").paginate(BackupPlanId=plan_id)
        ids = [one["SelectionId"] async for page in pages for one in page["BackupSelectionsList"]]
        arns: set[str] = set()
        for selection in ids:
            answer = await self._client.get_backup_selection(
                BackupPlanId=plan_id, SelectionId=selection
            )
            arns.update(answer["BackupSelection"].get("Resources", ()))
        return arns

    def _is_declared(self, plan: BackupPlan, rules: Sequence[Mapping[str, Any]]) -> bool:
        return any(
            rule.get("TargetBackupVaultName") == self._vault
            and rule.get("ScheduleExpression") == DAILY
            and rule.get("Lifecycle", {}).get("DeleteAfterDays") == plan.days
            for rule in rules
        )

    def _document(self, plan: BackupPlan) -> dict[str, Any]:
        rule = {
            "RuleName": plan.name,
            "TargetBackupVaultName": self._vault,
            "ScheduleExpression": DAILY,
            "Lifecycle": {"DeleteAfterDays": plan.days},
        }
        return {"BackupPlanName": self._prefix + plan.name, "Rules": [rule]}

    def _creating(self, plan: BackupPlan) -> Callable[[], Awaitable[object]]:
        return lambda: self._client.create_backup_plan(BackupPlan=self._document(plan))

    def _updating(self, plan: BackupPlan, plan_id: str) -> Callable[[], Awaitable[object]]:
        return lambda: self._client.update_backup_plan(
            BackupPlanId=plan_id, BackupPlan=self._document(plan)
        )

    def _selecting(
        self, plan: BackupPlan, plan_id: str, arns: list[str]
    ) -> Callable[[], Awaitable[object]]:
        # A selection cannot be changed: tables that are new get one of their own.
        name = f"{plan.name}-{arns[0].rpartition('/')[2]}"[:50]
        selection = {"SelectionName": name, "IamRoleArn": self._role, "Resources": arns}
        return lambda: self._client.create_backup_selection(
            BackupPlanId=plan_id, BackupSelection=selection
        )
