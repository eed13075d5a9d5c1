# SPDX-License-Identifier: Apache-2.0
"""Finds the partition keys with the most load and the most throttling, from CloudWatch's metrics.

CloudWatch counts keys only for tables whose Contributor Insights are on. Counting throttled
requests costs nothing while there are none. Counting all requests costs money, so turn it on only
to search for a hot key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from tidings.stores.dynamodb.client.partitions import KeyLoad
from tidings.stores.dynamodb.tables import Table

KEYS_MAX: Final = 10
"""Keys that are returned for each table."""
_MINUTE: Final = 60
_RULES: Final = "DynamoDBContributorInsights-{}-"
_MODES: Final = {"all": "ACCESSED_AND_THROTTLED_KEYS", "throttled": "THROTTLED_KEYS"}

Counted = Literal["all", "throttled"]


@dataclass(frozen=True, slots=True)
class ThrottledKey:
    """A partition key whose requests DynamoDB refused for a while."""

    table: str
    key: str
    times: int


class HotKeys:
    """Finds the busiest and the throttled keys of one deployment, as CloudWatch counts them."""

    def __init__(self, dynamodb: Any, cloudwatch: Any, prefix: str) -> None:  # noqa: ANN401 - the SDK has no types
        self._dynamodb = dynamodb
        self._cloudwatch = cloudwatch
        self._prefix = prefix

    async def count(self, table: Table, counted: Counted) -> None:
        """Make CloudWatch count a table's requests by key: all of them, or the throttled ones."""
        await self._dynamodb.update_contributor_insights(
            TableName=self._prefix + table.name,
            ContributorInsightsAction="ENABLE",
            ContributorInsightsMode=_MODES[counted],
        )

    async def rules(self, table: Table) -> list[str]:
        """Return the names of CloudWatch's rules that count requests; empty if counting is off."""
        name = self._prefix + table.name
        answer = await self._dynamodb.describe_contributor_insights(TableName=name)
        if answer.get("ContributorInsightsStatus") != "ENABLED":
            return []
        return list(answer.get("ContributorInsightsRuleList", ()))

    async def busiest(
        self, table: Table, rules: Sequence[str], since: datetime, until: datetime
    ) -> list[KeyLoad]:
        """Return the keys with the highest load, busiest first.

        The load of a key is the average per second in its busiest minute.
        """
        found = await self._report("PKC", rules, since, until)
        loads = [
            KeyLoad(table.name, _key(one), max(_values(one), default=0.0) / _MINUTE)
            for one in found
        ]
        return sorted(loads, key=lambda load: -load.units)

    async def throttled(
        self, table: Table, rules: Sequence[str], since: datetime, until: datetime
    ) -> list[ThrottledKey]:
        """Return the keys that were throttled most often."""
        found = await self._report("PKT", rules, since, until)
        return [
            ThrottledKey(table.name, _key(one), round(one["ApproximateAggregateValue"]))
            for one in found
        ]

    async def _report(
        self, kind: str, rules: Sequence[str], since: datetime, until: datetime
    ) -> list[dict[str, Any]]:
        begins = _RULES.format(kind)
        found: list[dict[str, Any]] = []
        for rule in rules:
            if rule.startswith(begins):
                answer = await self._cloudwatch.get_insight_rule_report(
                    RuleName=rule,
                    StartTime=since,
                    EndTime=until,
                    Period=_MINUTE,
                    MaxContributorCount=KEYS_MAX,
                    OrderBy="Sum",
                )
                found += answer.get("Contributors", ())
        return found


def _key(contributor: dict[str, Any]) -> str:
    return " ".join(contributor["Keys"])


def _values(contributor: dict[str, Any]) -> list[float]:
    return [point["ApproximateValue"] for point in contributor.get("Datapoints", ())]
