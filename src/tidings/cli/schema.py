# SPDX-License-Identifier: Apache-2.0
"""`tidings schema`: compares and creates tables on DynamoDB, and writes templates for them."""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
        actions.add_parser(word, parents=[tables], help=does).set_defaults(act=act)
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
    return asyncio.run(_look(options, os.environ))


async def _look(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    # Imported here, because the other commands start faster without it.
    with optional_import():
        from tidings.stores.dynamodb.schema.live import live_tables

    prefix = options.prefix or environment.get("TIDINGS_DYNAMODB_PREFIX") or PREFIX
    endpoint = options.endpoint or environment.get("TIDINGS_DYNAMODB_ENDPOINT")
    async with live_tables(
        endpoint=endpoint,
        region=options.region
        or environment.get("TIDINGS_DYNAMODB_REGION")
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or local_region(endpoint),
        prefix=prefix,
    ) as tables:
        act: Callable[[LiveTables, str], Awaitable[int]] = options.act
        return await act(tables, prefix)


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
