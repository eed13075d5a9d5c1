# SPDX-License-Identifier: Apache-2.0
"""Pings a server every few milliseconds beside a load, and reports the delay of the answers.

The probe is a separate process, so that a busy load does not distort its measurements: a
measurement ends when the answer reaches the kernel. The probe also reads from the kernel how long
the server's main thread waited for a core, because other programs used it, before and after each
ping.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from time import perf_counter, sleep, time_ns
from typing import Final

import msgspec

from bench.plain_socket import PlainSocket
from bench.server import pin_load

INTERVAL_SECONDS: Final = 0.005
PING: Final = b'{"op":"ping"}'


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """One ping: its time, on the clock that all processes share, and its duration in
    milliseconds."""

    at: float
    took: float
    waited: float
    """Time in which the server's main thread was ready to run and had no core, in milliseconds."""


def main() -> None:
    """Ping for some seconds, then write all samples to standard output."""
    parser = ArgumentParser(prog="bench.probe", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("pid", type=int)
    parser.add_argument("seconds", type=float)
    options = parser.parse_args()
    pin_load()
    plain = PlainSocket(options.url, options.token)
    samples = _probe(plain, options.pid, options.seconds)
    sys.stdout.buffer.write(msgspec.json.encode(samples))


def _probe(plain: PlainSocket, pid: int, seconds: float) -> list[Sample]:
    samples = []
    started = perf_counter()
    due = started
    while (now := perf_counter()) < started + seconds:
        if now < due:
            sleep(due - now)
        due = max(due + INTERVAL_SECONDS, perf_counter())
        waited, at, sent_ns = _waited_ns(pid), perf_counter(), time_ns()
        plain.send(PING)
        plain.receive("pong")
        took_ns = plain.arrived_ns - sent_ns
        waited = _waited_ns(pid) - waited
        samples.append(Sample(at, took_ns / 1e6, waited / 1e6))
    return samples


def _waited_ns(pid: int) -> int:
    """Return how long the main thread has waited for a core since it started."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1])


if __name__ == "__main__":
    main()
