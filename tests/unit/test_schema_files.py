# SPDX-License-Identifier: Apache-2.0
"""Generated infrastructure: complete, well formed, and the same as in the repository."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.write_generated import ROOT, generated
from tidings.cli import main
from tidings.cli.schema import as_text
from tidings.stores.dynamodb.patterns import declared
from tidings.stores.dynamodb.schema.alarms import all_alarms
from tidings.stores.dynamodb.schema.cloudformation import TEMPLATE_BYTES_MAX, templates
from tidings.stores.dynamodb.schema.policies import ANYTHING, Policy, policies
from tidings.stores.dynamodb.schema.terraform import files
from tidings.stores.dynamodb.tables import PITR_DAYS, TABLES, Table, tables_in

POLICY_CHARS_MAX = 6_144
PSEUDO_PARAMETERS = {"AWS::AccountId", "AWS::Partition", "AWS::Region"}
GENERATED = dict(generated())
TEMPLATES = templates()
TERRAFORM = files()
PROVISIONED = tables_in("provisioned")
each_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@pytest.mark.parametrize("path", GENERATED, ids=str)
def test_the_repository_has_what_is_generated(path: Path) -> None:
    is_same = (ROOT / path).is_file() and (ROOT / path).read_text() == GENERATED[path]
    assert is_same, "run: python -m scripts.write_generated"


def test_the_repository_has_nothing_else_there() -> None:
    for folder in ("deploy/cloudformation", "deploy/terraform"):
        there = {path.relative_to(ROOT) for path in (ROOT / folder).iterdir()}
        assert there == {path for path in GENERATED if path.is_relative_to(folder)}


@pytest.mark.parametrize("kind", ["cloudformation", "terraform"])
def test_the_command_writes_the_same(kind: str, tmp_path: Path) -> None:
    assert main(["schema", kind, "--to", str(tmp_path / "new")]) == 0
    for path in (tmp_path / "new").iterdir():
        assert path.read_text() == GENERATED[Path("deploy") / kind / path.name]


def test_the_command_says_where_it_may_not_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["schema", "terraform", "--to", str(tmp_path / "file")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_the_command_says_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("deployment", "live"):  # another test may have imported them
        monkeypatch.delitem(sys.modules, f"tidings.stores.dynamodb.schema.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    assert main(["schema", "plan"]) == 2
    assert "pip install 'tidings[scale]'" in capsys.readouterr().err


# CloudFormation.


def resources(kind: str, found: dict[str, Any] = TEMPLATES) -> dict[str, Any]:
    """Properties of all resources of a type, by their ids."""
    return {
        name: resource["Properties"]
        for template in found.values()
        for name, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def words(value: Any) -> Iterator[tuple[str, Any]]:
    """Every name with its value, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            yield from words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words(inner)


def text(value: Any) -> str:
    return str(value["Fn::Sub"]) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_small_enough_and_refers_to_what_it_has(name: str) -> None:
    template = TEMPLATES[name]
    assert len(as_text(template).encode()) <= TEMPLATE_BYTES_MAX
    known = {*template["Parameters"], *template["Resources"], *PSEUDO_PARAMETERS}
    for key, value in words(template):
        match key:
            case "Ref":
                assert value in known
            case "Fn::GetAtt":
                assert value[0] in known
            case "Fn::Sub":
                assert set(re.findall(r"\$\{([^}]+)\}", value)) <= known
            case _:
                pass
    for parameter in template["Parameters"]:
        assert f'"{parameter}"' in json.dumps(template["Resources"]) or f"${{{parameter}}}" in (
            json.dumps(template["Resources"])
        ), f"{parameter} is asked for and not used"
    for resource in template["Resources"]:
        assert resource.isalnum()


def cloudformation_table(table: Table) -> dict[str, Any]:
    found = resources("AWS::DynamoDB::Table").values()
    return next(one for one in found if text(one["TableName"]) == "${Prefix}" + table.name)


@each_table
def test_a_table_of_cloudformation_is_as_declared(table: Table) -> None:
    there = cloudformation_table(table)
    recovery = there["PointInTimeRecoverySpecification"]
    assert recovery["PointInTimeRecoveryEnabled"] == table.pitr
    assert recovery.get("RecoveryPeriodInDays") == (PITR_DAYS if table.pitr else None)
    assert there["BillingMode"] == "PAY_PER_REQUEST"
    assert there.get("TimeToLiveSpecification", {}).get("AttributeName") == table.ttl
    assert there.get("StreamSpecification", {}).get("StreamViewType") == table.stream
    assert there["DeletionProtectionEnabled"]
    names = [index["IndexName"] for index in there.get("GlobalSecondaryIndexes", ())]
    assert names == [index.name for index in table.indexes]


def test_a_deleted_stack_leaves_the_tables() -> None:
    for resource in TEMPLATES["tables.json"]["Resources"].values():
        if resource["Type"] in ("AWS::DynamoDB::Table", "AWS::Backup::BackupVault"):
            assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"


def test_everything_provisioned_scales() -> None:
    assert not resources("AWS::ApplicationAutoScaling::ScalableTarget"), "all is on demand"
    made = templates(PROVISIONED)
    modes = [one["BillingMode"] for one in resources("AWS::DynamoDB::Table", made).values()]
    assert modes.count("PROVISIONED") == sum(table.capacity is not None for table in PROVISIONED)
    targets = resources("AWS::ApplicationAutoScaling::ScalableTarget", made)
    policies = resources("AWS::ApplicationAutoScaling::ScalingPolicy", made).values()
    scaled = sum(2 * (1 + len(table.indexes)) for table in PROVISIONED if table.capacity)
    assert len(targets) == scaled
    assert {policy["ScalingTargetId"]["Ref"] for policy in policies} == set(targets)
    assert len(as_text(made["tables.json"]).encode()) <= TEMPLATE_BYTES_MAX


def test_the_dashboard_shows_every_table() -> None:
    (shown,) = resources("AWS::CloudWatch::Dashboard").values()
    body = json.loads(text(shown["DashboardBody"]))
    titles = [widget["properties"]["title"].partition(":")[0] for widget in body["widgets"]]
    assert set(titles) == {table.name for table in TABLES}
    places = [(widget["x"], widget["y"]) for widget in body["widgets"]]
    assert len(set(places)) == len(places) == 3 * len(TABLES)
    same = TERRAFORM["dashboard.tf.json"]["resource"]["aws_cloudwatch_dashboard"]["tables"]
    assert len(json.loads(same["dashboard_body"])["widgets"]) == len(places)


def test_backups_are_daily_and_kept_as_declared() -> None:
    plans = resources("AWS::Backup::BackupPlan")
    kept: dict[str, int] = {}
    for selection in resources("AWS::Backup::BackupSelection").values():
        (rule,) = plans[selection["BackupPlanId"]["Ref"]]["BackupPlan"]["BackupPlanRule"]
        assert re.fullmatch(r"cron\(\d+ \d+ \* \* \? \*\)", rule["ScheduleExpression"])
        for resource in selection["BackupSelection"]["Resources"]:
            kept[resource["Fn::GetAtt"][0]] = rule["Lifecycle"]["DeleteAfterDays"]
    names = {
        name: text(table["TableName"]).removeprefix("${Prefix}")
        for name, table in resources("AWS::DynamoDB::Table").items()
    }
    declared_days = {table.name: table.backup_days for table in TABLES if table.backup_days}
    assert {names[name]: days for name, days in kept.items()} == declared_days


# Alarms.


@each_table
def test_each_table_has_its_alarms(table: Table) -> None:
    mine = [alarm for alarm in all_alarms() if alarm.table is table]
    for index in (None, *(index.name for index in table.indexes)):
        metrics = {alarm.metric for alarm in mine if alarm.index == index}
        assert metrics >= {
            "ConsumedReadCapacityUnits",
            "ConsumedWriteCapacityUnits",
            "ReadThrottleEvents",
            "WriteThrottleEvents",
        }
    spoken = {
        pattern.operation
        for pattern in declared()
        if table.name in pattern.tables and pattern.operation != "Scan"
    }
    for metric in ("SuccessfulRequestLatency", "SystemErrors"):
        assert {alarm.operation for alarm in mine if alarm.metric == metric} == spoken


def test_alarms_go_off_where_they_should() -> None:
    for alarm in [*all_alarms(), *all_alarms(PROVISIONED)]:
        if alarm.kind == "throttling":
            assert (alarm.threshold, alarm.minutes) == (0, 1), "at once"
        elif alarm.metric == "SystemErrors":
            assert (alarm.threshold, alarm.minutes) == (10, 5), "single errors are retried"
        elif alarm.operation:
            assert (alarm.threshold, alarm.statistic) == (100, "p99")
        else:
            capacity = alarm.table.capacity
            units = 40_000
            if capacity is not None:
                units = (capacity.read if "Read" in alarm.metric else capacity.write).most
            assert alarm.threshold == units * 60 * 8 // 10


def test_both_kinds_of_files_have_the_same_alarms() -> None:
    names = sorted("${Prefix}" + alarm.name for alarm in all_alarms())
    assert len(set(names)) == len(names)
    of_cloudformation = resources("AWS::CloudWatch::Alarm").values()
    assert sorted(text(alarm["AlarmName"]) for alarm in of_cloudformation) == names
    of_terraform = TERRAFORM["alarms.tf.json"]["resource"]["aws_cloudwatch_metric_alarm"]
    assert len(of_terraform) == len(names)


# Rights.


def policy(name: str) -> Policy:
    return next(one for one in policies() if one.name == name)


def actions_on(resource: str, name: str) -> set[str]:
    return {
        action.removeprefix("dynamodb:")
        for right in policy(name).rights
        for action in right.actions
        if resource in right.resources
    }


def test_the_server_can_do_what_its_patterns_say_and_no_more() -> None:
    assert actions_on("messages", "serve") == {
        "BatchGetItem",
        "GetItem",
        "PutItem",
        "Query",
        "UpdateItem",
    }
    assert actions_on("chat_memberships/index/user_chats-index", "serve") == {"Query"}
    assert "Scan" not in {a for t in TABLES for a in actions_on(t.name, "serve")}
    for table in TABLES:
        assert actions_on(table.name, "serve"), table.name


def test_only_operators_scan_and_only_what_is_declared() -> None:
    scanned = {
        "chats", "delivery_state", "idempotency_keys", "inbox", "keys", "listings", "reactions",
        "sessions", "tenants", "users",
    }  # fmt: skip
    for table in TABLES:
        scans = {"Scan"} if table.name in scanned else set()
        assert actions_on(table.name, "operate") == scans


def test_nobody_can_delete_a_table_or_an_entry_or_do_anything_at_all() -> None:
    for one in policies():
        for right in one.rights:
            assert right.resources
            assert all(re.fullmatch(r"[a-z-]+:[A-Za-z]+", action) for action in right.actions)
            assert not any("Delete" in action for action in right.actions) or one.name == "serve"
            if right.resources == (ANYTHING,):
                assert not any(action.startswith("dynamodb:") for action in right.actions)
            assert "dynamodb:DeleteTable" not in right.actions
            if "messages" in right.resources:
                assert not {"dynamodb:DeleteItem", "dynamodb:BatchWriteItem"} & set(right.actions)


def test_the_relay_reads_the_streams_there_are() -> None:
    assert actions_on("messages/stream/*", "relay") >= {"GetRecords", "GetShardIterator"}
    assert actions_on("chats/stream/*", "relay") == set()


def test_policies_are_not_too_long_for_aws() -> None:
    prefix, region, account = "p" * 30, "ap-southeast-1", "1" * 12
    for one in resources("AWS::IAM::ManagedPolicy").values():
        document = json.dumps(one["PolicyDocument"], separators=(",", ":"))
        for name, value in (
            ("${Prefix}", prefix),
            ("${AWS::Region}", region),
            ("${AWS::AccountId}", account),
            ("${AWS::Partition}", "aws"),
        ):
            document = document.replace(name, value)
        assert len(re.sub(r'\{"Fn::Sub":("[^"]*")\}', r"\1", document)) < POLICY_CHARS_MAX


# Terraform.


def test_terraform_refers_to_what_it_has() -> None:
    known = {"var.prefix", "var.alarm_topic"}
    for content in TERRAFORM.values():
        for kind, some in content.get("resource", {}).items():
            known |= {f"{kind}.{name}" for name in some}
        for kind, some in content.get("data", {}).items():
            known |= {f"data.{kind}.{name}" for name in some}
    found = set(re.findall(r"\$\{((?:var|data\.\w+|\w+)\.[\w-]+)", json.dumps(TERRAFORM)))
    assert found <= known
    assert {"var.prefix", "var.alarm_topic"} <= found


@each_table
def test_a_table_of_terraform_is_as_declared(table: Table) -> None:
    there = TERRAFORM["tables.tf.json"]["resource"]["aws_dynamodb_table"][table.name]
    assert there["name"] == "${var.prefix}" + table.name
    assert (there["hash_key"], there.get("range_key")) == (
        table.partition.name,
        table.sort.name if table.sort else None,
    )
    keys = {table.partition, table.sort} | {
        key for index in table.indexes for key in (index.partition, index.sort)
    }
    assert {(one["name"], one["type"]) for one in there["attribute"]} == {
        (key.name, key.type) for key in keys if key is not None
    }
    days = {"recovery_period_in_days": PITR_DAYS} if table.pitr else {}
    assert there["point_in_time_recovery"] == {"enabled": table.pitr, **days}
    assert there.get("ttl", {}).get("attribute_name") == table.ttl
    assert there.get("stream_view_type") == table.stream
    assert there["lifecycle"]["prevent_destroy"]
    assert "read_capacity" not in there, "all is on demand"


def test_terraform_scales_what_is_provisioned() -> None:
    resource = files(PROVISIONED)["tables.tf.json"]["resource"]
    for table in PROVISIONED:
        there = resource["aws_dynamodb_table"][table.name]
        assert ("read_capacity" in there) == (table.capacity is not None)
    assert set(resource["aws_appautoscaling_target"]) == set(resource["aws_appautoscaling_policy"])


def test_terraform_keeps_backups_as_declared() -> None:
    resource = TERRAFORM["tables.tf.json"]["resource"]
    kept = {
        table: resource["aws_backup_plan"][name]["rule"]["lifecycle"]["delete_after"]
        for name, selection in resource["aws_backup_selection"].items()
        for table in selection["resources"]
    }
    assert kept == {
        f"${{aws_dynamodb_table.{table.name}.arn}}": table.backup_days
        for table in TABLES
        if table.backup_days
    }
