# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.peers`: compares this server with ejabberd and PostgreSQL under the same
load."""

import argparse
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

from bench.machine import machine
from bench.peers.contest import CONTESTS, Contest, Settings, outcomes
from bench.peers.outcome import Outcome
from bench.peers.packages import Installed, install
from bench.peers.processes import PeerError
from bench.peers.report import progress, ratios, table
from bench.peers.xmpp import XmppError
from bench.server import LOAD_CORE, OUTPUT, SERVER_CORE, pin_load
from tidings.tools.load_talker import LoadStopped

RESULTS: Final = OUTPUT / "peers.json"
QUIET: Final = 0.25
"""Share of a core that other programs may seem to use: up to this share, it is the kernel's work
for our disk."""
ABOUT: Final = f"""\
Servers on core {SERVER_CORE} (ejabberd together with its PostgreSQL, unless said otherwise), load
on core {LOAD_CORE}, no TLS, a fresh server and data folder for every run, one second to warm up.
Ours: encrypted, idempotent, members checked, receipts stored, fsync before every answer. A message
counts when it is both acknowledged and delivered.
ejabberd: only the modules that the load needs, no stream management. A message counts when it is
delivered. With the archive (mod_mam, default: always) that is after PostgreSQL has committed the
sender's and the receiver's row; but a row that cannot be written does not hold the message back.
"""


def main() -> int:
    """Install the other server, measure both, print and write the results; return 1 if a run is not
    valid."""
    options = _options()
    settings = Settings(
        pairs=options.pairs,
        window=options.window,
        members=options.members,
        senders=options.senders,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that folders are removed
    try:
        installed = _ready()
        chosen = [CONTESTS[name] for name in options.only or CONTESTS]
        found = {contest.name: _held(contest, settings, installed) for contest in chosen}
    except (PeerError, XmppError, LoadStopped) as error:
        print(f"\nNO COMPARISON: {error}", file=sys.stderr)
        return 1
    _write(settings, installed, found)
    faults = [fault for runs in found.values() for run in runs for fault in run.faults]
    for fault in faults:
        print(f"DO NOT QUOTE THIS: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--only", choices=CONTESTS, action="append")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _ready() -> Installed:
    if (os.cpu_count() or 1) < 2:
        raise PeerError("it takes two cores, one for the server and one for the load.")
    installed, here = install(), machine()
    print(", ".join(f"{name} {version}" for name, version in installed.versions.items()))
    print(f"{here.processor}, {here.cores} cores; an fdatasync takes {here.sync_ms:.2f} ms\n")
    print(ABOUT, flush=True)
    pin_load()
    return installed


def _held(contest: Contest, settings: Settings, installed: Installed) -> list[Outcome]:
    print(f"--- {contest.name}: {_load(contest, settings)}", flush=True)
    found = []
    for outcome in outcomes(contest, settings, installed):
        found.append(outcome)
        print(progress(contest.name, outcome), flush=True)
    for name, value in found[-1].database.items():  # the last one is a run of the peer
        print(f"  PostgreSQL: {name} = {value}")
    print()
    print(table(contest.name, found))
    if (others := max(run.others for run in found)) > QUIET:
        print(f"NOT A QUIET MACHINE: others took up to {others:.0%} of a core.")
    print(flush=True)
    return found


def _load(contest: Contest, settings: Settings) -> str:
    if contest.name == "1:1":
        who = f"{settings.pairs} pairs, window {settings.window}"
    else:
        who = f"{settings.members} members, {settings.senders} send, window {settings.window}"
    return f"{who}, {settings.seconds:g} s a run"


def _write(settings: Settings, installed: Installed, found: dict[str, list[Outcome]]) -> None:
    everything = {
        "taken_at": datetime.now(UTC).isoformat(),
        "machine": machine(),
        "about": ABOUT,
        "versions": installed.versions,
        "settings": settings,
        "ratios": {name: ratios(name, runs) for name, runs in found.items()},
        "runs": found,
    }
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(everything), indent=1))
    print(f"results: {RESULTS}")


if __name__ == "__main__":
    sys.exit(main())
