# SPDX-License-Identifier: Apache-2.0
"""Tables, their scaling and their backups as resources of CloudFormation."""

from collections.abc import Iterator
from typing import Any

from tidings.stores.dynamodb.schema import requests
from tidings.stores.dynamodb.schema.backups import DAILY, BackupPlan, backup_plans
from tidings.stores.dynamodb.schema.scaling import TARGET_PERCENT, Scaled, all_scaled
from tidings.stores.dynamodb.tables import TABLES, Table

Template = dict[str, Any]


def tables() -> Iterator[tuple[str, Template]]:
    """The resources that hold data, by their logical ids."""
    for table in TABLES:
        yield logical_id(table.name), _table(table)
    for scaled in all_scaled():
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
    properties["PointInTimeRecoverySpecification"] = {"PointInTimeRecoveryEnabled": table.pitr}
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
    """A text in which CloudFormation puts parameters and resources."""
    return {"Fn::Sub": text}


def logical_id(name: str) -> str:
    """A name as CloudFormation wants its own: letters and digits only."""
    words = name.replace("_", "-").split("-")
    return "".join(word[:1].upper() + word[1:] for word in words)
