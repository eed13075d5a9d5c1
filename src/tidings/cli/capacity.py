# SPDX-License-Identifier: Apache-2.0
"""`tidings capacity`: plans the capacity and cost of a load on DynamoDB."""

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Final

from tidings.tools.capacity_plan import Machine, fleet, plan
from tidings.tools.capacity_report import as_json, as_text
from tidings.tools.charges import Prices, read_prices
from tidings.tools.other_designs import COUNTER_AND_ROWS
from tidings.tools.traffic import Traffic

_WORDS: Final = {
    "dau": "active users per day",
    "messages_per_day": "messages that each of them sends per day",
    "message_bytes": "bytes of text in a message",
    "group_share": "share of messages in groups, 0 to 1",
    "group_size": "members of a group",
    "online_share": "share of readers who are connected when a message arrives, 0 to 1",
    "chats": "chats per user",
    "opens_per_day": "connects per user and day",
    "reads_per_day": "pages of history per user and day",
    "expiring_share": "share of messages that expire, 0 to 1",
    "expiring_days": "days until they expire",
    "reactions_share": "reactions per message",
    "edits_share": "edits per message",
    "joins_per_day": "changes of membership per user and day",
    "plan_days": "days of messages to plan storage for",
    "retention_days": "days after which content is removed, as `keep_days` of chats; 0: never",
    "peak": "the busiest moment as a multiple of the average",
    "connected_share": "share of users connected at that moment, 0 to 1",
    "gateway_gb": "memory of a gateway in GB",
    "request_us": "CPU time of a store request in µs",
    "message_us": "CPU time of a message in µs, without the store",
    "delivery_us": "CPU time of a delivery in µs",
    "entry_us": "CPU time of a worker for an entry in µs, without the store",
}
_LEAST: Final = {"group_size": 3, "peak": 1, "gateway_gb": 0.1, "message_bytes": 1}
_MOST: Final = {"group_size": 1_000, "message_bytes": 4_096, "chats": 1_000, "dau": 10**10}


def add_capacity_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings capacity`."""
    for group in (Traffic, Machine):
        for field in fields(group):
            parser.add_argument(
                f"--{field.name.replace('_', '-')}",
                type=_number(field),
                default=field.default,
                metavar="N",
                help=f"{_WORDS[field.name]} ({field.default:,})",
            )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="prices of your region (those of us-east-1)"
    )
    parser.add_argument(
        "--design",
        choices=[COUNTER_AND_ROWS.name],
        help="add the figures of another design, for comparison",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def capacity(options: argparse.Namespace) -> int:
    """Print the capacity plan; return the exit code.

    Raises:
        SetupError: The file with prices cannot be read or is not valid.
    """
    prices = read_prices(options.prices) if options.prices else Prices()
    machine = Machine(**_given(Machine, options))
    planned = plan(Traffic(**_given(Traffic, options)), prices)
    processes = fleet(planned, machine)
    if options.json:
        print(json.dumps(as_json(planned, processes, design=options.design), indent=2))
    else:
        print(as_text(planned, processes, machine, design=options.design), end="")
    return 0


def _given(group: type[Traffic | Machine], options: argparse.Namespace) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(group)}


def _number(field: Field[Any]) -> Callable[[str], float]:
    """Return a parser for the numbers of an option, which explains wrong values."""
    least = _LEAST.get(field.name, 0)
    most = _MOST.get(field.name, 1 if field.name.endswith("_share") else math.inf)
    if field.name in ("reactions_share", "edits_share"):
        most = math.inf
    kind = int if isinstance(field.default, int) else float

    def number(text: str) -> float:
        try:
            value = kind(text.replace("_", "").replace(",", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not least <= value <= most:
            upper = "" if most == math.inf else f" and at most {most:,}"
            raise argparse.ArgumentTypeError(f"{text} must be at least {least:,}{upper}")
        return value

    return number
