# SPDX-License-Identifier: Apache-2.0
"""The declared tables as a Terraform module, in Terraform's JSON form.

The JSON form, because a generated file is checked better than it is read: nothing can be wrong
with its syntax. Scaling changes capacities, so those are left alone once a table is there.
"""

from collections import defaultdict
from collections.abc import Iterator

from tidings.stores.dynamodb.schema.alarms import PERIOD_SECONDS, Alarm, all_alarms
from tidings.stores.dynamodb.schema.roles import Policy, policies
from tidings.stores.dynamodb.schema.terraform_tables import (
    Block,
    Resource,
    named,
    of_table,
    tables,
)


def files() -> dict[str, Block]:
    """Every file of the module, by its name."""
    return {
        "settings.tf.json": _settings(),
        "tables.tf.json": _resources(tables()),
        "alarms.tf.json": _resources(_alarm(alarm) for alarm in all_alarms()),
        "policies.tf.json": _policies(),
    }


def _settings() -> Block:
    return {
        "terraform": {
            "required_version": ">= 1.3",
            "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.0, < 7.0"}},
        },
        "variable": {
            "prefix": {
                "type": "string",
                "default": "tidings-",
                "description": "What every table's name begins with (TIDINGS_DYNAMODB_PREFIX).",
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
    table, slash, rest = resource.partition("/")
    return f"${{aws_dynamodb_table.{table}.arn}}{slash}{rest}"
