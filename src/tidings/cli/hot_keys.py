# SPDX-License-Identifier: Apache-2.0
"""`tidings schema hot`: shows which partition keys on DynamoDB are near their limit."""

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from tidings.model.setup_error import optional_import

if TYPE_CHECKING:
    from tidings.cli.schema import Place
    from tidings.stores.dynamodb.schema.hot_keys import HotKeys
    from tidings.stores.dynamodb.tables import Table

HOT: Final = 1
"""Exit code if a key is hot, or was throttled."""
_MINUTES: Final = 60
_OFF: Final = "No table counts its keys yet. `tidings schema hot --count throttled` switches it on."


def add_hot_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings schema hot`."""
    parser.add_argument(
        "--minutes",
        type=int,
        default=_MINUTES,
        metavar="N",
        help=f"minutes to look at ({_MINUTES})",
    )
    parser.add_argument(
        "--count",
        choices=("throttled", "all"),
        help="start to count throttled requests, or all requests, by key",
    )


async def look_for_hot_keys(place: "Place", options: argparse.Namespace) -> int:
    """Print the busiest and the throttled keys of each table; return the exit code."""
    with optional_import():
        from tidings.stores.dynamodb.schema.hot_keys import HotKeys
        from tidings.stores.dynamodb.schema.live import aws_client
    from tidings.stores.dynamodb.tables import TABLES

    where = {"endpoint": place.endpoint, "region": place.region}
    async with (
        aws_client("dynamodb", **where) as dynamodb,
        aws_client("cloudwatch", **where) as cloudwatch,
    ):
        keys = HotKeys(dynamodb, cloudwatch, place.prefix)
        if options.count is not None:
            for table in TABLES:
                await keys.count(table, options.count)
            print(f"{len(TABLES)} tables count requests by key from now on.")
            return 0
        return await _report(keys, TABLES, timedelta(minutes=options.minutes))


async def _report(keys: "HotKeys", tables: "tuple[Table, ...]", span: timedelta) -> int:
    until = datetime.now(UTC)
    code, counting = 0, 0
    for table in tables:
        rules = await keys.rules(table)
        counting += bool(rules)
        for load in await keys.busiest(table, rules, until - span, until):
            code = HOT if load.is_hot else code
            heat = "hot " if load.is_hot else "    "
            print(f"{heat}{load.table} {load.key}: {load.units:,.0f} weighted units per second")
        for throttled in await keys.throttled(table, rules, until - span, until):
            code = HOT
            print(f"hot {throttled.table} {throttled.key}: throttled {throttled.times:,} times")
    print(_OFF if not counting else f"{counting} of {len(tables)} tables count their keys.")
    return code
