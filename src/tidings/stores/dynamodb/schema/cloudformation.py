# SPDX-License-Identifier: Apache-2.0
"""The declared tables as CloudFormation templates.

Several, because each has to stay under the 51,200 bytes that CloudFormation takes without a bucket,
and because policies and alarms are often somebody else's to deploy.
"""

from collections.abc import Iterator
from typing import Final

from tidings.stores.dynamodb.schema.alarms import KINDS, PERIOD_SECONDS, Alarm, Kind, all_alarms
from tidings.stores.dynamodb.schema.cloudformation_tables import (
    Template,
    logical_id,
    sub,
    tables,
)
from tidings.stores.dynamodb.schema.roles import Policy, policies

TEMPLATE_BYTES_MAX: Final = 51_200

_PREFIX: Final = {
    "Prefix": {
        "Type": "String",
        "Default": "tidings-",
        "AllowedPattern": "[a-zA-Z0-9_.-]{1,64}",
        "Description": "What the name of every table begins with (TIDINGS_DYNAMODB_PREFIX).",
    }
}
_TOPIC: Final = {
    "AlarmTopic": {
        "Type": "String",
        "Description": "The ARN of the SNS topic that alarms are sent to.",
    }
}


def templates() -> dict[str, Template]:
    """Every template, by the name of its file."""
    return {
        "tables.json": _template("tables, their scaling and backups", _PREFIX, dict(tables())),
        "policies.json": _template("policies", _PREFIX, dict(_policies())),
        **{
            f"alarms-{kind}.json": _template(
                f"alarms on {kind.replace('-', ' ')}", _PREFIX | _TOPIC, dict(_alarms(kind))
            )
            for kind in KINDS
        },
    }


def _template(what: str, parameters: Template, resources: Template) -> Template:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Tidings on DynamoDB: {what}. Made by `tidings schema cloudformation`.",
        "Parameters": parameters,
        "Resources": resources,
    }


def _alarms(kind: Kind) -> Iterator[tuple[str, Template]]:
    for alarm in all_alarms():
        if alarm.kind == kind:
            yield logical_id(alarm.name), _alarm(alarm)


def _alarm(alarm: Alarm) -> Template:
    statistic = "Statistic" if alarm.statistic == "Sum" else "ExtendedStatistic"
    dimensions = {"TableName": sub("${Prefix}" + alarm.table.name), **alarm.dimensions}
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": sub("${Prefix}" + alarm.name),
            "AlarmDescription": alarm.says,
            "Namespace": "AWS/DynamoDB",
            "MetricName": alarm.metric,
            "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
            statistic: alarm.statistic,
            "Period": PERIOD_SECONDS,
            "EvaluationPeriods": alarm.minutes,
            "Threshold": alarm.threshold,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "AlarmActions": [{"Ref": "AlarmTopic"}],
            "OKActions": [{"Ref": "AlarmTopic"}],
        },
    }


def _policies() -> Iterator[tuple[str, Template]]:
    for policy in policies():
        yield logical_id(policy.name), _policy(policy)


def _policy(policy: Policy) -> Template:
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "ManagedPolicyName": sub("${Prefix}" + policy.name),
            "Description": policy.says,
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": right.sid,
                        "Effect": "Allow",
                        "Action": list(right.actions),
                        "Resource": [sub(_arn(resource)) for resource in right.resources],
                    }
                    for right in policy.rights
                ],
            },
        },
    }


def _arn(resource: str) -> str:
    return (
        "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${Prefix}" + resource
    )
