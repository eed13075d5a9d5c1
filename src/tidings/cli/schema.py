# SPDX-License-Identifier: Apache-2.0
"""`tidings schema`: compares and creates tables on DynamoDB, and writes templates for them."""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidings.assembly.system import SystemChance, SystemClock, wait_patiently
from tidings.cli.hot_keys import add_hot_options, look_for_hot_keys
from tidings.config.settings import local_region
from tidings.model.setup_error import SetupError, optional_import
from tidings.stores.dynamodb.tables import CapacityMode, tables_in

if TYPE_CHECKING:
    from tidings.stores.dynamodb.schema.deployment import AnyDifference, LiveDeployment

PREFIX: Final = "tidings-"
DIFFERENT: Final = 1
"""Exit code if a table differs from its declaration, or a key is hot."""

_NO_PITR: Final = (
    "This endpoint does not support point-in-time recovery, which was therefore not checked."
)
_NO_SERVICES: Final = "Scaling, alarms, the dashboard and backups were not checked."
_CAPACITY: Final = ("on-demand", "provisioned")


def add_schema_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings schema`."""
    tables = argparse.ArgumentParser(add_help=False)
    tables.add_argument(
        "--endpoint", metavar="URL", help="the endpoint of DynamoDB (AWS, in your region)"
    )
    tables.add_argument("--region", help="the region (that of your AWS settings)")
    tables.add_argument("--prefix", help=f"the prefix of the names of tables ({PREFIX})")
    mode = argparse.ArgumentParser(add_help=False)
    mode.add_argument(
        "--capacity", choices=_CAPACITY, default=_CAPACITY[0], help="the billing mode (on-demand)"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for word, act, does in (
        ("plan", _plan, "show every difference from the declaration"),
        ("apply", _apply, "create and change tables as declared; nothing is deleted"),
        ("verify", _verify, "exit with 1 if anything differs from the declaration"),
    ):
        action = actions.add_parser(word, parents=[tables, mode], help=does)
        action.set_defaults(look=_compare, act=act)
        _add_wishes(action)
    hot = actions.add_parser(
        "hot",
        parents=[tables],
        help="show the busiest partition keys; exit with 1 if one is hot or throttled",
    )
    hot.set_defaults(look=look_for_hot_keys)
    add_hot_options(hot)
    actions.add_parser(
        "fill",
        parents=[tables],
        help="with an upgrade: allow new formats, and complete the lists",
    ).set_defaults(look=_fill)
    for kind, name in (("cloudformation", "CloudFormation"), ("terraform", "Terraform")):
        files = actions.add_parser(kind, parents=[mode], help=f"write the {name} files")
        files.add_argument(
            "--to",
            type=Path,
            default=Path(kind),
            metavar="FOLDER",
            help=f"the folder to write to ({kind})",
        )


def _add_wishes(action: argparse.ArgumentParser) -> None:
    action.add_argument("--alarm-topic", metavar="ARN", help="the SNS topic that alarms notify")
    action.add_argument(
        "--backup-role", metavar="ARN", help="the role with which AWS Backup reads the tables"
    )
    action.add_argument(
        "--tables-only",
        action="store_true",
        help="leave out scaling, alarms, the dashboard and backups",
    )


def schema(options: argparse.Namespace) -> int:
    """Run the chosen action on the tables; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    if options.action in ("cloudformation", "terraform"):
        return _write_files(options.action, options.to, options.capacity)
    look: Callable[[Place, argparse.Namespace], Coroutine[None, None, int]] = options.look
    return asyncio.run(look(_place(options, os.environ), options))


class Place(NamedTuple):
    """The endpoint, region and name prefix of the tables that a command works on."""

    endpoint: str | None
    region: str | None
    prefix: str


def _place(options: argparse.Namespace, environment: Mapping[str, str]) -> Place:
    endpoint = options.endpoint or environment.get("TIDINGS_DYNAMODB_ENDPOINT")
    region = (
        options.region
        or environment.get("TIDINGS_DYNAMODB_REGION")
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or local_region(endpoint)
    )
    prefix = options.prefix or environment.get("TIDINGS_DYNAMODB_PREFIX") or PREFIX
    return Place(endpoint, region, prefix)


async def _compare(place: Place, options: argparse.Namespace) -> int:
    # Imported here, because the other commands start faster without it.
    with optional_import():
        from tidings.stores.dynamodb.schema.deployment import Wishes, open_deployment

    wishes = Wishes(options.capacity, options.alarm_topic, options.backup_role, options.tables_only)
    async with open_deployment(**place._asdict(), wishes=wishes) as deployment:
        act: Callable[[LiveDeployment, str], Awaitable[int]] = options.act
        return await act(deployment, place.prefix)


async def _fill(place: Place, _options: argparse.Namespace) -> int:
    with optional_import():
        from tidings.stores.dynamodb.export.importing import fill_heads, fill_lists
        from tidings.stores.dynamodb.export.scanning import open_patient
        from tidings.stores.dynamodb.formats import allow_newest

    if place.region is None:
        raise SetupError("the region is missing: name it with --region or TIDINGS_DYNAMODB_REGION")
    async with open_patient(
        endpoint=place.endpoint,
        region=place.region,
        prefix=place.prefix,
        clock=SystemClock(),
        chance=SystemChance(),
        back_off=wait_patiently,
    ) as dynamo:
        await allow_newest(dynamo, SystemClock().now())
        print("The processes of this version may be started.", flush=True)
        print(f"{await fill_lists(dynamo):,} tenants, keys, users and chats are listed.")
        count = await fill_heads(dynamo, SystemClock().now())
        print(f"{count:,} old chats have got a copy of their head.")
    return 0


async def _plan(deployment: "LiveDeployment", prefix: str) -> int:
    found = await deployment.differences()
    for difference in found:
        print(f"{'apply  ' if difference.curable else 'by hand'}  {_line(difference, prefix)}")
    print(_summary(deployment, found))
    return 0


async def _apply(deployment: "LiveDeployment", prefix: str) -> int:
    left = await deployment.apply(lambda step: print(f"apply    {_line(step, prefix)}", flush=True))
    for difference in left:
        print(f"by hand  {_line(difference, prefix)}")
    print(_summary(deployment, left))
    return DIFFERENT if left else 0


async def _verify(deployment: "LiveDeployment", prefix: str) -> int:
    found = await deployment.differences()
    for difference in found:
        print(_line(difference, prefix))
    if not await deployment.tables.knows_pitr():
        print(_NO_PITR)
    print(_summary(deployment, found))
    return DIFFERENT if found else 0


def _line(difference: "AnyDifference", prefix: str) -> str:
    return f"{difference.named(prefix)}: {difference.says}"


def _summary(deployment: "LiveDeployment", found: "list[AnyDifference]") -> str:
    if found:
        return f"{len(found)} not as declared."
    if deployment.services is not None:
        return "Everything is as declared."
    return f"All tables are as declared. {_NO_SERVICES}"


def _write_files(kind: str, folder: Path, capacity: CapacityMode) -> int:
    from tidings.stores.dynamodb.schema import cloudformation, terraform

    tables = tables_in(capacity)
    make = cloudformation.templates if kind == "cloudformation" else terraform.files
    files = make(tables)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(as_text(content))
            print(folder / name)
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}") from error
    return 0


def as_text(content: dict[str, Any]) -> str:
    """Return the text of a generated file."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
