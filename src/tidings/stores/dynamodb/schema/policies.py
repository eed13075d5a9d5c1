# SPDX-License-Identifier: Apache-2.0
"""IAM policies, derived from the declared tables and access patterns.

A policy is for one kind of process; a process that is of two kinds gets both policies. The server's
rights follow from the access patterns that it uses. Only the operator who creates the tables may
change them, and nobody may delete a table or an entry in a log.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tidings.stores.dynamodb.patterns import Pattern, declared
from tidings.stores.dynamodb.tables import TABLES

_TABLE_ACTIONS: Final = (
    "CreateTable",
    "DescribeContinuousBackups",
    "DescribeContributorInsights",
    "DescribeTable",
    "DescribeTimeToLive",
    "UpdateContinuousBackups",
    "UpdateContributorInsights",
    "UpdateTable",
    "UpdateTimeToLive",
)
ANYTHING: Final = "*"
"""Stands for every resource. It is used for services whose resources have names that AWS
chooses."""
_SERVICE_ACTIONS: Final = (
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:RegisterScalableTarget",
    "backup:CreateBackupPlan",
    "backup:CreateBackupSelection",
    "backup:CreateBackupVault",
    "backup:DescribeBackupVault",
    "backup:GetBackupPlan",
    "backup:GetBackupSelection",
    "backup:ListBackupPlans",
    "backup:ListBackupSelections",
    "backup:UpdateBackupPlan",
    "backup-storage:MountCapsule",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:GetDashboard",
    "cloudwatch:GetInsightRuleReport",
    "cloudwatch:PutDashboard",
    "cloudwatch:PutMetricAlarm",
)


@dataclass(frozen=True, slots=True)
class Right:
    """Actions that are allowed on some resources."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """Names of tables or of their parts, without the prefix: `chats`, `messages/stream/*`; or
    `ANYTHING`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rights of one kind of process."""

    name: str
    says: str
    """Description in AWS. IAM cannot change a description, so a new text means a new policy."""
    rights: tuple[Right, ...]


def policies() -> tuple[Policy, ...]:
    """Return all policies."""
    serving = [pattern for pattern in declared() if pattern.operation != "Scan"]
    scanning = [pattern for pattern in declared() if pattern.operation == "Scan"]
    streamed = tuple(table.name for table in TABLES if table.stream)
    names = tuple(table.name for table in TABLES)
    return (
        Policy("serve", "Every process that serves users.", tuple(_rights(serving))),
        Policy(
            "relay",
            "Whoever reads the streams; it serves as well.",
            (
                Right("FindStreams", _named(("DescribeTable",)), streamed),
                Right(
                    "ReadStreams",
                    _named(("DescribeStream", "GetRecords", "GetShardIterator")),
                    tuple(f"{name}/stream/*" for name in streamed),
                ),
            ),
        ),
        Policy(
            "operate",
            "Whoever rotates the master key, exports or imports; it serves as well.",
            tuple(_rights(scanning)),
        ),
        Policy(
            "schema",
            "Whoever makes and checks the tables; it cannot delete one.",
            (Right("ManageTables", _named(_TABLE_ACTIONS), names),),
        ),
        Policy(
            "watch",
            "Whoever makes and checks scaling, alarms, the dashboard and backups.",
            (Right("ManageServices", _SERVICE_ACTIONS, (ANYTHING,)),),
        ),
    )


def _rights(patterns: Iterable[Pattern]) -> Iterator[Right]:
    """Yield one right for each table and index, with only the actions that are needed there."""
    actions: defaultdict[str, set[str]] = defaultdict(set)
    for pattern in patterns:
        for table in pattern.tables:
            resource = f"{table}/index/{pattern.index}" if pattern.index else table
            actions[resource].update(_actions(pattern, table))
    for resource, some in sorted(actions.items()):
        words = resource.replace("/index/", "_").replace("-", "_").split("_")
        yield Right("".join(map(str.capitalize, words)), _named(sorted(some)), (resource,))


def _actions(pattern: Pattern, table: str) -> Iterator[str]:
    if pattern.operation != "TransactWriteItems":
        yield pattern.operation
        return
    yield from ("PutItem", "UpdateItem")
    if table in pattern.deletes:
        yield "DeleteItem"


def _named(actions: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"dynamodb:{action}" for action in actions)
