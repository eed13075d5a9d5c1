# SPDX-License-Identifier: Apache-2.0
"""Tables, their scaling and their backups as resources of Terraform."""

from collections.abc import Iterator
from typing import Any

from tidings.stores.dynamodb.schema.backups import DAILY, BackupPlan, backup_plans
from tidings.stores.dynamodb.schema.requests import attributes
from tidings.stores.dynamodb.schema.scaling import TARGET_PERCENT, Scaled, all_scaled
from tidings.stores.dynamodb.tables import TABLES, Index, Table

Block = dict[str, Any]
Resource = tuple[str, str, Block]
"""Its type, its name within the module, its arguments."""


def tables() -> Iterator[Resource]:
    """The resources that hold data."""
    for table in TABLES:
        yield "aws_dynamodb_table", table.name, _table(table)
    for scaled in all_scaled():
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
            {"name": one["AttributeName"], "type": one["AttributeType"]}
            for one in attributes(table)
        ],
        "point_in_time_recovery": {"enabled": table.pitr},
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
    """An attribute of a table of this module."""
    return f"${{aws_dynamodb_table.{table.name}.{what}}}"


def named(name: str) -> str:
    """A name that begins with the deployment's prefix."""
    return "${var.prefix}" + name
