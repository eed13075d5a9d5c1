# SPDX-License-Identifier: Apache-2.0
"""`python -m bench`: runs all benchmarks, or a single one with its own options."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from bench import (
    backups,
    blocked,
    downloads,
    fan_out,
    half_load,
    history,
    hot_chat,
    hot_rate,
    idle,
    inbox,
    long_chat,
    metrics,
    mixed,
    neighbours,
    packs,
    profiling,
    restart,
    scale,
    search,
    stalls,
    throughput,
    tls,
)
from bench.interpreter import use_fastest
from bench.machine import BUSY_SHARE, Machine, Others, machine
from bench.server import OUTPUT, own_folder, pin_load

RESULTS: Final = OUTPUT / "results.json"


class Part(msgspec.Struct, frozen=True):
    """One benchmark."""

    title: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Coroutine[Any, Any, object]]
    is_in_all: bool = True


PARTS: Final = {
    "throughput": Part("1:1 throughput", throughput.add_options, throughput.run),
    "half-load": Part("latency at half load", half_load.add_options, half_load.run),
    "fan-out": Part("group fan-out", fan_out.add_options, fan_out.run),
    "idle": Part("idle connections", idle.add_options, idle.run),
    "history": Part("history pages", history.add_options, history.run),
    "restart": Part("restart to ready", restart.add_options, restart.run),
    "stalls": Part("stalls of the event loop", stalls.add_options, stalls.run),
    "inbox": Part("notifications", inbox.add_options, inbox.run),
    "long-chat": Part(
        "a long chat in a browser", long_chat.add_options, long_chat.run, is_in_all=False
    ),
    "scale": Part("a steady load on DynamoDB", scale.add_options, scale.run, is_in_all=False),
    "mixed": Part("an app in its proportions", mixed.add_options, mixed.run, is_in_all=False),
    "hot-chat": Part("a hot chat", hot_chat.add_options, hot_chat.run, is_in_all=False),
    "hot-rate": Part("the rate of a hot chat", hot_rate.add_options, hot_rate.run, is_in_all=False),
    "packs": Part("the log of a hot chat", packs.add_options, packs.run, is_in_all=False),
    "blocked": Part("sends to who blocks them", blocked.add_options, blocked.run, is_in_all=False),
    "downloads": Part("files", downloads.add_options, downloads.run, is_in_all=False),
    "search": Part("search in a long chat", search.add_options, search.run, is_in_all=False),
    "neighbours": Part(
        "neighbours under attack", neighbours.add_options, neighbours.run, is_in_all=False
    ),
    "backups": Part("backups beside full load", backups.add_options, backups.run, is_in_all=False),
    "metrics": Part("the cost of metrics", metrics.add_options, metrics.run, is_in_all=False),
    "tls": Part("TLS, here or in a proxy", tls.add_options, tls.run, is_in_all=False),
    "profile": Part(
        "where the microseconds go", profiling.add_options, profiling.run, is_in_all=False
    ),
}


def main() -> None:
    """Run the benchmarks, print their results and write them to a file."""
    parser = _parser()
    chosen = parser.parse_args()
    use_fastest()
    names = [chosen.part] if chosen.part else [n for n, part in PARTS.items() if part.is_in_all]
    pin_load()
    found: dict[str, object] = {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _introduced(machine()),
    }
    with own_folder() as folder:
        for name in names:
            options = chosen if chosen.part else parser.parse_args([name])
            options.seeds = chosen.seeds or folder
            found[name], found[f"{name} others"] = _measure(PARTS[name], options)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    print(f"\nresults: {RESULTS}")


def _measure(part: Part, options: Namespace) -> tuple[object, float]:
    """Run one benchmark; return its result, and the share of a core that other programs used
    meanwhile."""
    print(f"\n--- {part.title}", flush=True)
    others = Others()
    found = uvloop.run(part.run(options))
    share = others.share()
    if share > BUSY_SHARE:
        print(f"Others used {share:.0%} of a core meanwhile: quiet figures would be better.")
    return found, share


def _introduced(here: Machine) -> Machine:
    print(
        f"{here.processor}, {here.cores} cores, Python {here.python} at {here.interpreter} "
        f"({here.build}), SQLite {here.sqlite}; "
        f"yardsticks: 4 KiB synced to disk in {here.sync_ms:.2f} ms, "
        f"a little Python in {here.python_ns:.0f} ns"
    )
    return here


def _parser() -> ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--seeds", type=Path, metavar="FOLDER", help="keep stores with long chats for the next run"
    )
    parts = parser.add_subparsers(dest="part", metavar="PART")
    for name, part in PARTS.items():
        part.add_options(parts.add_parser(name, help=part.title))
    return parser


if __name__ == "__main__":
    main()
