# SPDX-License-Identifier: Apache-2.0
"""Generates CloudFormation templates for the declared tables, their policies and alarms.

There are several templates, because a template that is not in a bucket may have at most 51,200
bytes, and because the people who deploy policies and alarms are often not those who deploy the
tables.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.schema.alarms import (
    DAILY,
    KINDS,
    PERIOD_SECONDS,
    TARGET_PERCENT,
    Alarm,
    BackupPlan,
    Scaled,
    all_alarms,
    all_scaled,
    backup_plans,
    dashboard,
)
from tidings.stores.dynamodb.schema.policies import ANYTHING, Policy, policies
from tidings.stores.dynamodb.tables import TABLES, Table

Template = dict[str, Any]
TEMPLATE_BYTES_MAX: Final = 51_200
# An alarm takes about 1,060 bytes.
ALARMS_PER_TEMPLATE: Final = 45
_PREFIX: Final = {
    "Prefix": {
        "Type": "String",
        "Default": "tidings-",
        "AllowedPattern": "[a-zA-Z0-9_.-]{1,64}",
        "Description": "Prefix of every table's name (TIDINGS_DYNAMODB_PREFIX).",
    }
}
_TOPIC: Final = {
    "AlarmTopic": {
        "Type": "String",
        "Description": "The ARN of the SNS topic that alarms are sent to.",
    }
}


def tables(declared: Sequence[Table]) -> Iterator[tuple[str, Template]]:
    """Yield the resources for the tables, their scaling and their backups, with logical ids."""
    for table in declared:
        yield logical_id(table.name), _table(table)
    for scaled in all_scaled(declared):
        yield from _scaling(scaled)
    yield (
        "BackupVault",
        {
            "Type": "AWS::Backup::BackupVault",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": {"BackupVaultName": sub("${Prefix}backups")},
        },
    )
    yield (
        "BackupRole",
        {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Principal": {"Service": "backup.amazonaws.com"},
                            "Action": "sts:AssumeRole",
                        }
                    ],
                },
                "ManagedPolicyArns": [
                    sub(
                        "arn:${AWS::Partition}:iam::aws:policy/service-role/"
                        "AWSBackupServiceRolePolicyForBackup"
                    )
                ],
            },
        },
    )
    for plan in backup_plans():
        yield from _backups(plan)


def _table(table: Table) -> Template:
    properties = requests.create_table(table, "")
    properties["TableName"] = sub("${Prefix}" + table.name)
    properties["PointInTimeRecoverySpecification"] = requests.recovery(table)
    properties["DeletionProtectionEnabled"] = True
    if table.stream:
        properties["StreamSpecification"] = {"StreamViewType": table.stream}
    if table.ttl:
        properties["TimeToLiveSpecification"] = {"AttributeName": table.ttl, "Enabled": True}
    return {
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }


def _scaling(scaled: Scaled) -> Iterator[tuple[str, Template]]:
    name = logical_id(scaled.name)
    resource = f"table/${{{logical_id(scaled.table.name)}}}"
    if scaled.index:
        resource += f"/index/{scaled.index}"
    yield (
        f"{name}Range",
        {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "ServiceNamespace": "dynamodb",
                "ResourceId": sub(resource),
                "ScalableDimension": scaled.dimension,
                "MinCapacity": scaled.range.least,
                "MaxCapacity": scaled.range.most,
            },
        },
    )
    yield (
        f"{name}Scaling",
        {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": sub("${Prefix}" + scaled.name),
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": {"Ref": f"{name}Range"},
                "TargetTrackingScalingPolicyConfiguration": {
                    "TargetValue": TARGET_PERCENT,
                    "PredefinedMetricSpecification": {"PredefinedMetricType": scaled.metric},
                },
            },
        },
    )


def _backups(plan: BackupPlan) -> Iterator[tuple[str, Template]]:
    name = logical_id(plan.name)
    yield (
        name,
        {
            "Type": "AWS::Backup::BackupPlan",
            "Properties": {
                "BackupPlan": {
                    "BackupPlanName": sub("${Prefix}" + plan.name),
                    "BackupPlanRule": [
                        {
                            "RuleName": plan.name,
                            "TargetBackupVault": {"Ref": "BackupVault"},
                            "ScheduleExpression": DAILY,
                            "Lifecycle": {"DeleteAfterDays": plan.days},
                        }
                    ],
                }
            },
        },
    )
    yield (
        f"{name}Tables",
        {
            "Type": "AWS::Backup::BackupSelection",
            "Properties": {
                "BackupPlanId": {"Ref": name},
                "BackupSelection": {
                    "SelectionName": plan.name,
                    "IamRoleArn": {"Fn::GetAtt": ["BackupRole", "Arn"]},
                    "Resources": [
                        {"Fn::GetAtt": [logical_id(table.name), "Arn"]} for table in plan.tables
                    ],
                },
            },
        },
    )


def sub(text: str) -> Template:
    """Return a text in which CloudFormation substitutes parameters and resources."""
    return {"Fn::Sub": text}


def logical_id(name: str) -> str:
    """Convert a name to a logical id of CloudFormation, which has only letters and digits."""
    words = name.replace("_", "-").split("-")
    return "".join(word[:1].upper() + word[1:] for word in words)


def templates(declared: Sequence[Table] = TABLES) -> dict[str, Template]:
    """Return all templates; the keys are their file names."""
    made = dict(tables(declared))
    return {
        "tables.json": _template("tables, their scaling and backups", _PREFIX, made),
        "dashboard.json": _template("a dashboard", _PREFIX, {"Dashboard": _dashboard(declared)}),
        "policies.json": _template("policies", _PREFIX, dict(_policies())),
        **dict(_alarm_templates(declared)),
    }


def _alarm_templates(declared: Sequence[Table]) -> Iterator[tuple[str, Template]]:
    """Yield a template for each kind of alarm, and further ones where one would be too large."""
    for kind in KINDS:
        alarms = [alarm for alarm in all_alarms(declared) if alarm.kind == kind]
        for part, start in enumerate(range(0, len(alarms), ALARMS_PER_TEMPLATE), start=1):
            number = f"-{part}" if part > 1 else ""
            resources = {
                logical_id(alarm.name): _alarm(alarm)
                for alarm in alarms[start : start + ALARMS_PER_TEMPLATE]
            }
            what = f"alarms on {kind.replace('-', ' ')}"
            yield f"alarms-{kind}{number}.json", _template(what, _PREFIX | _TOPIC, resources)


def _template(what: str, parameters: Template, resources: Template) -> Template:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": (
            f"Tidings on DynamoDB: {what}. Generated by `tidings schema cloudformation`."
        ),
        "Parameters": parameters,
        "Resources": resources,
    }


def _dashboard(declared: Sequence[Table]) -> Template:
    shown = dashboard(declared, "${Prefix}", "${AWS::Region}")
    return {
        "Type": "AWS::CloudWatch::Dashboard",
        "Properties": {
            "DashboardName": sub("${Prefix}tables"),
            "DashboardBody": sub(json.dumps(shown, separators=(",", ":"))),
        },
    }


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
                        "Resource": [_arn(resource) for resource in right.resources],
                    }
                    for right in policy.rights
                ],
            },
        },
    }


def _arn(resource: str) -> Template | str:
    if resource == ANYTHING:
        return resource
    return sub(
        "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${Prefix}" + resource
    )
