# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.peers`: compares this server with others under the same load, on the same
core."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
import uvloop

from bench.machine import Machine, machine
from bench.peers import half
from bench.peers.catalog import ARCHIVE, FAMILIES, GO_VERSIONS, OURS, Peer, obtained
from bench.peers.contest import KINDS, Plan, outcomes
from bench.peers.goals import verdicts
from bench.peers.markdown import Tables, page
from bench.peers.outcome import Outcome
from bench.peers.packages import versions
from bench.peers.processes import PeerError
from bench.peers.report import NOTE, line, progress, rows, table
from bench.peers.shapes import SHAPES
from bench.peers.wire import WireError
from bench.server import LOAD_CORE, OUTPUT, SERVER_CORE, pin_load
from tidings.tools.load_crowd import allow_connections
from tidings.tools.load_talker import LoadStopped

RESULTS: Final = OUTPUT / "peers.json"
PAGE: Final = OUTPUT / "peers.md"
QUIET: Final = 0.25
"""Share of a core that other programs may seem to use: up to this share, it is the kernel's work
for our disk."""
CONNECTIONS_MAX: Final = 2_000
ABOUT: Final = f"""\
Servers on core {SERVER_CORE}, together with their databases; the load on core {LOAD_CORE}; no TLS.
A new server and data folder in every round; one second to warm up before each run. The same client
for all: it counts texts in the bytes that arrive. Messages are frames of their own.
Ours: encrypted, idempotent, members checked, receipts stored, fsync before every answer.
ejabberd: only the modules that the load needs, no stream management; it does not answer, so a
message counts when it is delivered. With the archive (mod_mam, default: always) that is after
PostgreSQL has committed the sender's and the receiver's row.
Centrifugo: nobody's rights are checked. Redis: appendfsync always, history of 24 hours.
Tinode: receipts in pairs; none in the group, where it refuses them under this load.
NATS: a stream with sync_interval always; receivers have plain subscriptions beside the stream, so
they get messages before these are on the disk.
The load alone: the same load on a server that only answers and forwards constant bytes.
"""
_WIDTHS_OF_HALVES: Final = (5, -18, 9, 7, 7, 8, 11, 11, 11, 11, 7)


def main() -> int:
    """Obtain the servers, measure all, print and write the results; return 1 if a run is not
    valid."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders are removed
    try:
        return uvloop.run(_compare(options))
    except (PeerError, WireError, LoadStopped) as error:
        print(f"\nNO COMPARISON: {error}", file=sys.stderr)
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--only", choices=FAMILIES, nargs="+", default=list(FAMILIES))
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--shape", choices=SHAPES, nargs="+", default=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--half-rounds", type=int, default=5, help="0: nothing at half load")
    return parser.parse_args()


async def _compare(options: argparse.Namespace) -> int:
    if (os.cpu_count() or 1) < 2:
        raise PeerError("it takes two cores, one for the server and one for the load.")
    allow_connections(CONNECTIONS_MAX)
    peers, here = obtained(options.only), _introduced(machine())
    pin_load()
    plan = Plan(
        shapes=[SHAPES[name] for name in options.shape],
        kinds=options.kind,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    runs = await _contest(peers, plan)
    tables = {(k, s.name): rows(runs, k, s.name) for s in plan.shapes for k in plan.kinds}
    _show(tables, plan)
    halves = await _halves(peers, options)
    others = max(run.others for run in runs)
    PAGE.write_text(page(here, others, peers, tables, halves))
    _write(here, plan, runs, halves)
    return _judged(runs, others)


def _introduced(here: Machine) -> Machine:
    print(", ".join(f"{name} {version}" for name, version in _versions().items()))
    print(f"{here.processor}, {here.cores} cores; an fdatasync takes {here.sync_ms:.2f} ms\n")
    print(ABOUT, flush=True)
    return here


def _versions() -> dict[str, str]:
    return {**versions(), **GO_VERSIONS}


async def _contest(peers: Sequence[Peer], plan: Plan) -> list[Outcome]:
    for shape in plan.shapes:
        print(f"{shape.name}: {shape.about}")
    runs = []
    async for outcome in outcomes(peers, plan):
        runs.append(outcome)
        print(progress(outcome), flush=True)
    return runs


def _show(tables: Tables, plan: Plan) -> None:
    for (kind, shape), found in tables.items():
        print(f"\n--- {kind}, {shape}, {plan.seconds:g} s a run, {plan.rounds} rounds")
        print(table(kind, found))
    print(NOTE)
    print("\n".join(["\n--- goals (ours/its)", *verdicts(tables), ""]), flush=True)


async def _halves(peers: Sequence[Peer], options: argparse.Namespace) -> list[half.Half]:
    archive = [peer for peer in peers if peer.who == ARCHIVE]
    if not archive or not options.half_rounds:
        return []
    print("--- half load, and pings under full load")
    print(line(half.HEAD, _WIDTHS_OF_HALVES), flush=True)
    found = []
    async for one in half.halves([OURS, *archive], options.half_rounds, options.seconds):
        found.append(one)
        print(line(one.row(), _WIDTHS_OF_HALVES), flush=True)
    print(half.half_verdict(found), flush=True)
    return found


def _write(here: Machine, plan: Plan, runs: list[Outcome], halves: list[half.Half]) -> None:
    everything = {
        "taken_at": datetime.now(UTC).isoformat(),
        "machine": here,
        "about": ABOUT,
        "versions": _versions(),
        "plan": plan,
        "runs": runs,
        "halves": halves,
    }
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(everything), indent=1))
    print(f"results: {RESULTS}, {PAGE}")


def _judged(runs: Sequence[Outcome], others: float) -> int:
    if others > QUIET:
        print(f"NOT A QUIET MACHINE: others took up to {others:.0%} of a core.")
    faults = [fault for run in runs for fault in run.faults]
    for fault in faults:
        print(f"DO NOT QUOTE THIS: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
