# SPDX-License-Identifier: Apache-2.0
"""Compares the scaling, the alarms and the dashboard of the tables with their declaration.

Each difference has the request that corrects it. The names are the same as in the templates, so a
deployment that was made with a template has no differences.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidings.stores.dynamodb.schema.alarms import (
    PERIOD_SECONDS,
    TARGET_PERCENT,
    Alarm,
    Scaled,
    all_alarms,
    all_scaled,
    dashboard,
)
from tidings.stores.dynamodb.tables import Table

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceDifference:
    """One setting of scaling, alarms, dashboard or backups that is not as declared."""

    subject: str
    says: str
    cure: Callable[[], Awaitable[object]] | None = None
    """Function that corrects the setting; None if a person has to do it."""

    @property
    def curable(self) -> bool:
        """Whether `apply` can fix the difference."""
        return self.cure is not None

    def named(self, _prefix: str) -> str:
        """Return the name of the setting, which already has the deployment's prefix."""
        return self.subject


class Scaling:
    """Compares the scaling of provisioned capacity, in Application Auto Scaling."""

    def __init__(self, client: Any, prefix: str, tables: Sequence[Table]) -> None:  # noqa: ANN401 - the SDK has no types
        self._client = client
        self._prefix = prefix
        self._scaled = tuple(all_scaled(tables))

    async def differences(self) -> list[ServiceDifference]:
        """Return every capacity that does not scale as declared."""
        if not self._scaled:
            return []
        ranges = await self._all("describe_scalable_targets", "ScalableTargets")
        policies = await self._all("describe_scaling_policies", "ScalingPolicies")
        found = []
        for scaled in self._scaled:
            place = _place(scaled, self._prefix)
            at = (place["ResourceId"], scaled.dimension)
            says = "".join(_in_range(scaled, ranges.get(at))) or "".join(
                _in_policy(policies.get(at))
            )
            if says:
                subject = f"scaling of {self._prefix}{scaled.name}"
                found.append(ServiceDifference(subject, says, self._curing(scaled, place)))
        return found

    async def _all(self, operation: str, what: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        pages = self._client.get_paginator(operation).paginate(ServiceNamespace="dynamodb")
        return {
            (one["ResourceId"], one["ScalableDimension"]): one
            async for page in pages
            for one in page[what]
        }

    def _curing(self, scaled: Scaled, place: Request) -> Callable[[], Awaitable[object]]:
        async def cure() -> None:
            limits = {"MinCapacity": scaled.range.least, "MaxCapacity": scaled.range.most}
            await self._client.register_scalable_target(**place, **limits)
            await self._client.put_scaling_policy(
                **place,
                PolicyName=self._prefix + scaled.name,
                PolicyType="TargetTrackingScaling",
                TargetTrackingScalingPolicyConfiguration={
                    "TargetValue": TARGET_PERCENT,
                    "PredefinedMetricSpecification": {"PredefinedMetricType": scaled.metric},
                },
            )

        return cure


def _place(scaled: Scaled, prefix: str) -> Request:
    resource = f"table/{prefix}{scaled.table.name}"
    if scaled.index:
        resource += f"/index/{scaled.index}"
    return {
        "ServiceNamespace": "dynamodb",
        "ResourceId": resource,
        "ScalableDimension": scaled.dimension,
    }


def _in_range(scaled: Scaled, there: Mapping[str, Any] | None) -> Iterator[str]:
    if there is None:
        yield "it does not scale"
    elif (there["MinCapacity"], there["MaxCapacity"]) != (scaled.range.least, scaled.range.most):
        yield (
            f"it scales from {there['MinCapacity']} to {there['MaxCapacity']} and should from "
            f"{scaled.range.least} to {scaled.range.most}"
        )


def _in_policy(there: Mapping[str, Any] | None) -> Iterator[str]:
    if there is None:
        yield "it has a range and no policy"
        return
    target = there.get("TargetTrackingScalingPolicyConfiguration", {}).get("TargetValue")
    if target != TARGET_PERCENT:
        yield f"it aims at {target} % of the capacity and should at {TARGET_PERCENT} %"


class Alarms:
    """Compares the alarms of all tables and their dashboard, in CloudWatch."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the SDK has no types
        prefix: str,
        tables: Sequence[Table],
        topic: str | None,
    ) -> None:
        """Set up the comparison. Alarms notify the SNS topic `topic`; if it is None, existing
        alarms keep their topics."""
        self._client = client
        self._prefix = prefix
        self._tables = tables
        self._topic = topic

    async def differences(self) -> list[ServiceDifference]:
        """Return the differences of the alarms and of the dashboard."""
        pages = self._client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=self._prefix)
        there = {one["AlarmName"]: one async for page in pages for one in page["MetricAlarms"]}
        declared = [alarm_request(alarm, self._prefix) for alarm in all_alarms(self._tables)]
        found = list(self._in_alarms(declared, there))
        silent = [
            one for one in declared if there.get(one["AlarmName"], {}).get("AlarmActions") == []
        ]
        if silent and self._topic is None:
            says = f"{len(silent)} of them notify nobody: name an SNS topic with --alarm-topic"
            found.append(ServiceDifference(f"alarms {self._prefix}*", says))
        return [*found, *await self._in_dashboard()]

    def _in_alarms(
        self, declared: Sequence[Request], there: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[ServiceDifference]:
        if not any(wanted["AlarmName"] in there for wanted in declared):
            says = f"none of the {len(declared)} alarms exists"
            cure = self._curing([(wanted, []) for wanted in declared])
            yield ServiceDifference(f"alarms {self._prefix}*", says, cure)
            return
        for wanted in declared:
            actual = there.get(wanted["AlarmName"])
            if unlike := self._unlike(wanted, actual):
                actions = list(actual["AlarmActions"]) if actual else []
                cure = self._curing([(wanted, actions)])
                yield ServiceDifference(f"alarm {wanted['AlarmName']}", unlike, cure)

    def _unlike(self, wanted: Request, actual: Mapping[str, Any] | None) -> str | None:
        if actual is None:
            return "there is no such alarm"
        wrong = [
            name
            for name, value in wanted.items()
            if _comparable(actual.get(name)) != _comparable(value)
        ]
        if wrong:
            return f"it differs in {', '.join(wrong)}"
        if self._topic is not None and self._topic not in actual["AlarmActions"]:
            return f"it does not notify {self._topic}"
        return None

    def _curing(
        self, wanted: Sequence[tuple[Request, list[str]]]
    ) -> Callable[[], Awaitable[object]]:
        async def cure() -> None:
            for request, actions in wanted:
                told = [self._topic] if self._topic else actions
                await self._client.put_metric_alarm(**request, AlarmActions=told, OKActions=told)

        return cure

    async def _in_dashboard(self) -> list[ServiceDifference]:
        # A name of a dashboard has no dots, unlike a prefix.
        name = self._prefix.replace(".", "-") + "tables"
        body = dashboard(self._tables, self._prefix, self._client.meta.region_name)
        try:
            there = await self._client.get_dashboard(DashboardName=name)
        except self._client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFound":
                raise
            says = "there is no such dashboard"
        else:
            if json.loads(there["DashboardBody"]) == body:
                return []
            says = "it shows something else"

        async def cure() -> None:
            await self._client.put_dashboard(DashboardName=name, DashboardBody=json.dumps(body))

        return [ServiceDifference(f"dashboard {name}", says, cure)]


def alarm_request(alarm: Alarm, prefix: str) -> Request:
    """Return the request that makes an alarm, without the topics that it notifies."""
    dimensions = {"TableName": prefix + alarm.table.name, **alarm.dimensions}
    return {
        "AlarmName": prefix + alarm.name,
        "AlarmDescription": alarm.says,
        "Namespace": "AWS/DynamoDB",
        "MetricName": alarm.metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
        "Statistic" if alarm.statistic == "Sum" else "ExtendedStatistic": alarm.statistic,
        "Period": PERIOD_SECONDS,
        "EvaluationPeriods": alarm.minutes,
        "Threshold": float(alarm.threshold),
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }


def _comparable(value: Any) -> Any:  # noqa: ANN401 - any value of a request
    """Return a value that can be compared; the order of dimensions is ignored."""
    if isinstance(value, list):
        return {(one["Name"], one["Value"]) for one in value}
    return value
