# SPDX-License-Identifier: Apache-2.0
"""Generates a Terraform module for the declared tables, their policies and alarms.

The module uses Terraform's JSON syntax, because generated JSON cannot have syntax errors, and
nobody needs to read it. Terraform ignores the capacities of existing tables, because scaling
changes them.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tidings.stores.dynamodb.schema.alarms import (
    DAILY,
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
from tidings.stores.dynamodb.schema.requests import attributes
from tidings.stores.dynamodb.tables import PITR_DAYS, TABLES, Index, Table

Block = dict[str, Any]
Resource = tuple[str, str, Block]
"""Type of a resource, its name within the module, and its arguments."""


def tables(declared: Sequence[Table]) -> Iterator[Resource]:
    """Yield the resources for the tables, their scaling and their backups."""
    for table in declared:
        yield "aws_dynamodb_table", table.name, _table(table)
    for scaled in all_scaled(declared):
        yield from _scaling(scaled)
    yield from _vault()
    for plan in backup_plans():
        yield from _backups(plan)


def _table(table: Table) -> Block:
    block: Block = {
        "name": named(table.name),
        "billing_mode": "PROVISIONED" if table.capacity else "PAY_PER_REQUEST",
        "hash_key": table.partition.name,
        "attribute": [
            {"name": attribute["AttributeName"], "type": attribute["AttributeType"]}
            for attribute in attributes(table)
        ],
        "point_in_time_recovery": _recovery(table),
        "deletion_protection_enabled": True,
        "lifecycle": {"prevent_destroy": True},
        **_capacity(table),
    }
    if table.sort:
        block["range_key"] = table.sort.name
    if table.indexes:
        block["global_secondary_index"] = [_index(table, index) for index in table.indexes]
    if table.ttl:
        block["ttl"] = {"attribute_name": table.ttl, "enabled": True}
    if table.stream:
        block |= {"stream_enabled": True, "stream_view_type": table.stream}
    if table.capacity:
        scaled = ["read_capacity", "write_capacity"]
        block["lifecycle"]["ignore_changes"] = scaled + ["global_secondary_index"] * bool(
            table.indexes
        )
    return block


def _recovery(table: Table) -> Block:
    if not table.pitr:
        return {"enabled": False}
    return {"enabled": True, "recovery_period_in_days": PITR_DAYS}


def _index(table: Table, index: Index) -> Block:
    block: Block = {
        "name": index.name,
        "hash_key": index.partition.name,
        "projection_type": index.projection,
        **_capacity(table),
    }
    if index.sort:
        block["range_key"] = index.sort.name
    return block


def _capacity(table: Table) -> Block:
    if table.capacity is None:
        return {}
    return {
        "read_capacity": table.capacity.read.least,
        "write_capacity": table.capacity.write.least,
    }


def _scaling(scaled: Scaled) -> Iterator[Resource]:
    resource = "table/" + of_table(scaled.table, "name")
    if scaled.index:
        resource += f"/index/{scaled.index}"
    where = {
        "service_namespace": "dynamodb",
        "resource_id": resource,
        "scalable_dimension": scaled.dimension,
    }
    yield (
        "aws_appautoscaling_target",
        scaled.name,
        {**where, "min_capacity": scaled.range.least, "max_capacity": scaled.range.most},
    )
    yield (
        "aws_appautoscaling_policy",
        scaled.name,
        {
            **where,
            "name": named(scaled.name),
            "policy_type": "TargetTrackingScaling",
            "target_tracking_scaling_policy_configuration": {
                "target_value": TARGET_PERCENT,
                "predefined_metric_specification": {"predefined_metric_type": scaled.metric},
            },
            "depends_on": [f"aws_appautoscaling_target.{scaled.name}"],
        },
    )


def _vault() -> Iterator[Resource]:
    yield "aws_backup_vault", "backups", {"name": named("backups")}
    yield (
        "aws_iam_role",
        "backups",
        {
            "name": named("backups"),
            "assume_role_policy": "${data.aws_iam_policy_document.backups.json}",
        },
    )
    yield (
        "aws_iam_role_policy_attachment",
        "backups",
        {
            "role": "${aws_iam_role.backups.name}",
            "policy_arn": "arn:${data.aws_partition.current.partition}:iam::aws:policy"
            "/service-role/AWSBackupServiceRolePolicyForBackup",
        },
    )


def _backups(plan: BackupPlan) -> Iterator[Resource]:
    yield (
        "aws_backup_plan",
        plan.name,
        {
            "name": named(plan.name),
            "rule": {
                "rule_name": plan.name,
                "target_vault_name": "${aws_backup_vault.backups.name}",
                "schedule": DAILY,
                "lifecycle": {"delete_after": plan.days},
            },
        },
    )
    yield (
        "aws_backup_selection",
        plan.name,
        {
            "name": plan.name,
            "plan_id": f"${{aws_backup_plan.{plan.name}.id}}",
            "iam_role_arn": "${aws_iam_role.backups.arn}",
            "resources": [of_table(table, "arn") for table in plan.tables],
        },
    )


def of_table(table: Table, what: str) -> str:
    """Return a reference to an attribute of a table in this module."""
    return f"${{aws_dynamodb_table.{table.name}.{what}}}"


def named(name: str) -> str:
    """Return a name with the deployment's prefix."""
    return "${var.prefix}" + name


def files(declared: Sequence[Table] = TABLES) -> dict[str, Block]:
    """Return every file of the module by its name."""
    return {
        "settings.tf.json": _settings(),
        "tables.tf.json": _resources(tables(declared)),
        "alarms.tf.json": _resources(_alarm(alarm) for alarm in all_alarms(declared)),
        "dashboard.tf.json": _dashboard(declared),
        "policies.tf.json": _policies(),
    }


def _settings() -> Block:
    return {
        "terraform": {
            "required_version": ">= 1.3",
            "required_providers": {
                "aws": {"source": "hashicorp/aws", "version": ">= 5.100, < 7.0"}
            },
        },
        "variable": {
            "prefix": {
                "type": "string",
                "default": "tidings-",
                "description": "Prefix of every table's name (TIDINGS_DYNAMODB_PREFIX).",
            },
            "alarm_topic": {
                "type": "string",
                "description": "The ARN of the SNS topic that alarms are sent to.",
            },
        },
    }


def _resources(found: Iterator[Resource]) -> Block:
    by_type: defaultdict[str, Block] = defaultdict(dict)
    for kind, name, arguments in found:
        by_type[kind][name] = arguments
    return {"resource": dict(by_type)}


def _dashboard(declared: Sequence[Table]) -> Block:
    shown = dashboard(declared, "${var.prefix}", "${data.aws_region.current.id}")
    body = json.dumps(shown, separators=(",", ":"))
    made = {"dashboard_name": named("tables"), "dashboard_body": body}
    return {
        "data": {"aws_region": {"current": {}}},
        "resource": {"aws_cloudwatch_dashboard": {"tables": made}},
    }


def _alarm(alarm: Alarm) -> Resource:
    statistic = "statistic" if alarm.statistic == "Sum" else "extended_statistic"
    return (
        "aws_cloudwatch_metric_alarm",
        alarm.name,
        {
            "alarm_name": named(alarm.name),
            "alarm_description": alarm.says,
            "namespace": "AWS/DynamoDB",
            "metric_name": alarm.metric,
            "dimensions": {"TableName": of_table(alarm.table, "name"), **alarm.dimensions},
            statistic: alarm.statistic,
            "period": PERIOD_SECONDS,
            "evaluation_periods": alarm.minutes,
            "threshold": alarm.threshold,
            "comparison_operator": "GreaterThanThreshold",
            "treat_missing_data": "notBreaching",
            "alarm_actions": ["${var.alarm_topic}"],
            "ok_actions": ["${var.alarm_topic}"],
        },
    )


def _policies() -> Block:
    documents = {policy.name: _document(policy) for policy in policies()}
    documents["backups"] = {
        "statement": [
            {
                "actions": ["sts:AssumeRole"],
                "principals": {"type": "Service", "identifiers": ["backup.amazonaws.com"]},
            }
        ]
    }
    return {
        "data": {"aws_partition": {"current": {}}, "aws_iam_policy_document": documents},
        "resource": {
            "aws_iam_policy": {
                policy.name: {
                    "name": named(policy.name),
                    "description": policy.says,
                    "policy": f"${{data.aws_iam_policy_document.{policy.name}.json}}",
                }
                for policy in policies()
            }
        },
    }


def _document(policy: Policy) -> Block:
    return {
        "statement": [
            {
                "sid": right.sid,
                "actions": list(right.actions),
                "resources": [_arn(resource) for resource in right.resources],
            }
            for right in policy.rights
        ]
    }


def _arn(resource: str) -> str:
    if resource == ANYTHING:
        return resource
    table, slash, rest = resource.partition("/")
    return f"${{aws_dynamodb_table.{table}.arn}}{slash}{rest}"
