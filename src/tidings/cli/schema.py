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
from tidings.config.settings import local_region
from tidings.model.setup_error import SetupError, optional_import

if TYPE_CHECKING:
    from tidings.stores.dynamodb.schema.differences import Difference
    from tidings.stores.dynamodb.schema.live import LiveTables

PREFIX: Final = "tidings-"
DIFFERENT: Final = 1
"""Exit code if a table differs from its declaration."""

_NO_PITR: Final = (
    "This endpoint does not support point-in-time recovery, which was therefore not checked."
)


def add_schema_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings schema`."""
    tables = argparse.ArgumentParser(add_help=False)
    tables.add_argument(
        "--endpoint", metavar="URL", help="the endpoint of DynamoDB (AWS, in your region)"
    )
    tables.add_argument("--region", help="the region (that of your AWS settings)")
    tables.add_argument("--prefix", help=f"the prefix of the names of tables ({PREFIX})")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for word, act, does in (
        ("plan", _plan, "show every difference from the declared tables"),
        ("apply", _apply, "create and change tables; nothing is deleted"),
        ("verify", _verify, "exit with 1 if anything differs from the declared tables"),
    ):
        actions.add_parser(word, parents=[tables], help=does).set_defaults(look=_compare, act=act)
    actions.add_parser(
        "fill",
        parents=[tables],
        help="after an upgrade of all processes, list what existed before and allow new formats",
    ).set_defaults(look=_fill)
    for kind, name in (("cloudformation", "CloudFormation"), ("terraform", "Terraform")):
        files = actions.add_parser(kind, help=f"write the {name} files")
        files.add_argument(
            "--to",
            type=Path,
            default=Path(kind),
            metavar="FOLDER",
            help=f"the folder to write to ({kind})",
        )


def schema(options: argparse.Namespace) -> int:
    """Run the chosen action on the tables; return the exit code.

    Raises:
        SetupError: The operator has to change something first.
    """
    if options.action in ("cloudformation", "terraform"):
        return _write_files(options.action, options.to)
    look: Callable[[_Place, argparse.Namespace], Coroutine[None, None, int]] = options.look
    return asyncio.run(look(_place(options, os.environ), options))


class _Place(NamedTuple):
    """The tables that are meant."""

    endpoint: str | None
    region: str | None
    prefix: str


def _place(options: argparse.Namespace, environment: Mapping[str, str]) -> _Place:
    endpoint = options.endpoint or environment.get("TIDINGS_DYNAMODB_ENDPOINT")
    region = (
        options.region
        or environment.get("TIDINGS_DYNAMODB_REGION")
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or local_region(endpoint)
    )
    prefix = options.prefix or environment.get("TIDINGS_DYNAMODB_PREFIX") or PREFIX
    return _Place(endpoint, region, prefix)


async def _compare(place: _Place, options: argparse.Namespace) -> int:
    # Imported here, because the other commands start faster without it.
    with optional_import():
        from tidings.stores.dynamodb.schema.live import live_tables

    async with live_tables(**place._asdict()) as tables:
        act: Callable[[LiveTables, str], Awaitable[int]] = options.act
        return await act(tables, place.prefix)


async def _fill(place: _Place, _options: argparse.Namespace) -> int:
    with optional_import():
        from tidings.stores.dynamodb.export.importing import fill_lists
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
        print(f"{await fill_lists(dynamo):,} tenants, keys, users and chats are listed.")
    return 0


async def _plan(tables: "LiveTables", prefix: str) -> int:
    found = await tables.differences()
    for difference in found:
        print(f"{'apply  ' if difference.curable else 'by hand'}  {_line(difference, prefix)}")
    print(_summary(found))
    return 0


async def _apply(tables: "LiveTables", prefix: str) -> int:
    left = await tables.apply(lambda step: print(f"apply    {_line(step, prefix)}", flush=True))
    for difference in left:
        print(f"by hand  {_line(difference, prefix)}")
    print(_summary(left))
    return DIFFERENT if left else 0


async def _verify(tables: "LiveTables", prefix: str) -> int:
    found = await tables.differences()
    for difference in found:
        print(_line(difference, prefix))
    if not await tables.knows_pitr():
        print(_NO_PITR)
    print(_summary(found))
    return DIFFERENT if found else 0


def _line(difference: "Difference", prefix: str) -> str:
    return f"{prefix}{difference.table.name}: {difference.says}"


def _summary(found: "list[Difference]") -> str:
    return f"{len(found)} not as declared." if found else "All tables are as declared."


def _write_files(kind: str, folder: Path) -> int:
    from tidings.stores.dynamodb.schema import cloudformation, terraform

    files = cloudformation.templates() if kind == "cloudformation" else terraform.files()
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
