# SPDX-License-Identifier: Apache-2.0
"""`tidings schema` and the services around the tables: all that is declared is made and checked."""

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tidings.cli import main
from tidings.stores.dynamodb.client.partitions import HOT_UNITS
from tidings.stores.dynamodb.schema import deployment, live
from tidings.stores.dynamodb.schema.alarms import all_alarms, all_scaled, backup_plans
from tidings.stores.dynamodb.schema.deployment import (
    AnyDifference,
    LiveDeployment,
    Wishes,
    open_deployment,
)
from tidings.stores.dynamodb.tables import MESSAGES, TABLES, CapacityMode, Table, tables_in

REGION = "eu-central-1"
TOPIC = f"arn:aws:sns:{REGION}:123456789012:operators"
ROLE = "arn:aws:iam::123456789012:role/backups"
FEW = ("messages", "users", "keys")
"""Tables of the account: one of each kind is enough, and quickly made."""
_numbers = itertools.count()
open_client = live.aws_client


class WithSelections:
    """The client of AWS Backup, and the one thing moto lacks: the selections of a plan."""

    def __init__(self, client: Any, selections: dict[str, list[dict[str, Any]]]) -> None:
        self._client = client
        self._selections = selections

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_paginator(self, operation: str) -> Any:
        return (
            self if operation == "list_backup_selections" else self._client.get_paginator(operation)
        )

    async def paginate(self, BackupPlanId: str) -> AsyncIterator[dict[str, Any]]:
        count = len(self._selections.get(BackupPlanId, ()))
        yield {"BackupSelectionsList": [{"SelectionId": str(number)} for number in range(count)]}

    async def get_backup_selection(self, BackupPlanId: str, SelectionId: str) -> dict[str, Any]:
        return {"BackupSelection": self._selections[BackupPlanId][int(SelectionId)]}

    async def create_backup_selection(
        self, BackupPlanId: str, BackupSelection: dict[str, Any]
    ) -> None:
        self._selections.setdefault(BackupPlanId, []).append(BackupSelection)


def few_tables(mode: CapacityMode) -> tuple[Table, ...]:
    return tuple(table for table in tables_in(mode) if table.name in FEW)


@pytest.fixture
def prefix(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A deployment of this test's own in the account."""
    for name in list(os.environ):
        if name.startswith(("TIDINGS_", "AWS_")):
            monkeypatch.delenv(name)
    settings = {
        "TIDINGS_DYNAMODB_PREFIX": f"p{os.getpid()}x{next(_numbers)}-",
        "AWS_ENDPOINT_URL": aws_endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    selections: dict[str, list[dict[str, Any]]] = {}

    @asynccontextmanager
    async def with_selections(service: str, **where: Any) -> AsyncIterator[Any]:
        async with open_client(service, **where) as client:
            yield WithSelections(client, selections) if service == "backup" else client

    monkeypatch.setattr(deployment, "aws_client", with_selections)
    monkeypatch.setattr(deployment, "tables_in", few_tables)
    return settings["TIDINGS_DYNAMODB_PREFIX"]


class Account:
    """A deployment, and what is said of it, without the prefix."""

    def __init__(self, opened: LiveDeployment, prefix: str) -> None:
        self.opened = opened
        self._prefix = prefix

    def line(self, found: AnyDifference) -> str:
        return f"{found.named(self._prefix)}: {found.says}".replace(self._prefix, "")

    async def apply(self) -> tuple[list[str], list[str]]:
        """What was done, and what is left."""
        done: list[AnyDifference] = []
        left = await self.opened.apply(done.append)
        return [self.line(one) for one in done], [self.line(one) for one in left]

    async def verify(self) -> list[str]:
        return [self.line(one) for one in await self.opened.differences()]


@asynccontextmanager
async def account(prefix: str, wishes: Wishes) -> AsyncIterator[Account]:
    async with open_deployment(
        endpoint=None, region=REGION, prefix=prefix, wishes=wishes
    ) as opened:
        yield Account(opened, prefix)


async def spoil_alarms(cloudwatch: Any, prefix: str) -> None:
    await cloudwatch.delete_alarms(AlarmNames=[f"{prefix}users-reads-busy"])
    await cloudwatch.delete_dashboards(DashboardNames=[f"{prefix}tables"])
    found = await cloudwatch.describe_alarms(AlarmNames=[f"{prefix}users-writes-throttled"])
    keep = ("AlarmName", "MetricName", "Namespace", "Period", "Statistic", "Dimensions")
    alarm = {name: found["MetricAlarms"][0][name] for name in keep}
    rest = {"EvaluationPeriods": 3, "ComparisonOperator": "GreaterThanThreshold"}
    await cloudwatch.put_metric_alarm(**alarm, **rest, Threshold=5.0, AlarmActions=["other"])


async def spoil_scaling(scaling: Any, prefix: str) -> None:
    place = {"ServiceNamespace": "dynamodb", "ResourceId": f"table/{prefix}users"}
    reads = {"ScalableDimension": "dynamodb:table:ReadCapacityUnits"}
    await scaling.register_scalable_target(**place, **reads, MinCapacity=1, MaxCapacity=2)


async def test_all_that_is_declared_is_made_and_found(prefix: str) -> None:
    wishes = Wishes("provisioned", alarm_topic=TOPIC, backup_role=ROLE)
    async with account(prefix, wishes) as mine:
        done, left = await mine.apply()
        assert left == []
        tables = few_tables("provisioned")
        assert {f"scaling of {one.name}: it does not scale" for one in all_scaled(tables)} == {
            "scaling of users-reads: it does not scale",
            "scaling of users-writes: it does not scale",
        } & set(done)
        assert f"alarms *: none of the {len(list(all_alarms(tables)))} alarms exists" in done
        assert "dashboard tables: there is no such dashboard" in done
        assert "backup vault backups: there is no such vault" in done
        for plan in backup_plans():
            assert f"backup plan {plan.name}: there is no such plan" in done
        assert await mine.verify() == []

        scaling, cloudwatch, _ = mine.opened.services or (None, None, None)
        await spoil_alarms(cloudwatch, prefix)
        await spoil_scaling(scaling, prefix)
        wrong = [
            "scaling of users-reads: it scales from 1 to 2 and should from 20 to 2000",
            "alarm users-reads-busy: there is no such alarm",
            "alarm users-writes-throttled: it differs in AlarmDescription, EvaluationPeriods, "
            "Threshold, TreatMissingData",
            "dashboard tables: there is no such dashboard",
        ]
        assert await mine.verify() == wrong
        assert await mine.apply() == (wrong, [])


async def test_what_a_person_has_to_decide_is_said(prefix: str) -> None:
    async with account(prefix, Wishes()) as mine:
        done, left = await mine.apply()
    alarms = len(list(all_alarms(few_tables("on-demand"))))
    assert not any("scaling" in line for line in done), "on demand, nothing scales"
    assert left[0] == (
        f"alarms *: {alarms} of them notify nobody: name an SNS topic with --alarm-topic"
    )
    plans = list(backup_plans())
    assert [line.partition(": ")[0] for line in left[1:]] == [
        f"backup plan {plan.name}" for plan in plans
    ]
    assert all("--backup-role" in line for line in left[1:])


def test_the_command_says_what_it_looked_at(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "apply", "--alarm-topic", TOPIC, "--backup-role", ROLE]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Everything is as declared."
    assert main(["schema", "verify", "--tables-only"]) == 0
    assert "Scaling, alarms, the dashboard and backups were not checked." in capsys.readouterr().out


class Insights:
    """What CloudWatch says of the keys of tables, which moto does not count."""

    def __init__(self) -> None:
        self.counted: dict[str, str] = {}

    async def update_contributor_insights(
        self, TableName: str, ContributorInsightsAction: str, ContributorInsightsMode: str
    ) -> None:
        assert ContributorInsightsAction == "ENABLE"
        self.counted[TableName] = ContributorInsightsMode

    async def describe_contributor_insights(self, TableName: str) -> dict[str, Any]:
        if TableName not in self.counted:
            return {"ContributorInsightsStatus": "DISABLED"}
        rules = [f"DynamoDBContributorInsights-{kind}-{TableName}-1" for kind in ("PKC", "PKT")]
        return {"ContributorInsightsStatus": "ENABLED", "ContributorInsightsRuleList": rules}

    async def get_insight_rule_report(self, RuleName: str, **_period: Any) -> dict[str, Any]:
        if MESSAGES.name not in RuleName:
            return {"Contributors": []}
        if "-PKT-" in RuleName:
            return {"Contributors": [{"Keys": ["c2"], "ApproximateAggregateValue": 7.0}]}
        points = [{"Timestamp": datetime.now(UTC), "ApproximateValue": HOT_UNITS * 60.0}]
        return {"Contributors": [{"Keys": ["c1"], "Datapoints": points}]}


def test_hot_keys_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account = Insights()

    @asynccontextmanager
    async def insights(_service: str, **_where: Any) -> AsyncIterator[Insights]:
        yield account

    def said(*words: str) -> tuple[int, list[str]]:
        code = main(["schema", "hot", "--prefix", "t-", *words])
        return code, capsys.readouterr().out.splitlines()

    monkeypatch.setattr(live, "aws_client", insights)
    code, lines = said()
    assert code == 0
    assert "No table counts its keys yet" in lines[0]
    assert said("--count", "all")[0] == 0
    assert set(account.counted) == {f"t-{table.name}" for table in TABLES}
    assert said("--minutes", "5") == (
        1,
        [
            "hot messages c1: 2,000 weighted units per second",
            "hot messages c2: throttled 7 times",
            f"{len(TABLES)} of {len(TABLES)} tables count their keys.",
        ],
    )
