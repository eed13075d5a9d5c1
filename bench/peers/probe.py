# SPDX-License-Identifier: Apache-2.0
"""Pings a server every few milliseconds beside a load, and reports the delay of the answers.

The probe is a separate process (`python -m bench.peers.probe`), so that a busy load does not
distort its measurements: a measurement ends when the answer reaches the kernel.
"""

import asyncio
import sys
from pathlib import Path
from time import perf_counter, sleep, time_ns
from typing import Final

import msgspec

from bench.peers.member import Ping
from bench.plain_socket import received, timed_connection
from bench.server import pin_load

INTERVAL_SECONDS: Final = 0.005


async def probed(ping: Ping, seconds: float) -> list[float]:
    """Ping for some seconds in a process of its own; return the delays in milliseconds."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(seconds),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    output, _ = await process.communicate(msgspec.json.encode(ping))
    return msgspec.json.decode(output, type=list[float])


class _Pinger:
    """A user without an event loop."""

    def __init__(self, ping: Ping) -> None:
        self._ping = ping
        self._connection = timed_connection("127.0.0.1", ping.port)
        for request, answer in ping.login:
            self._ask(request, answer)

    def delay_ms(self) -> float:
        """Ping once."""
        sent_ns = time_ns()
        return (self._ask(self._ping.ping, self._ping.pong) - sent_ns) / 1e6

    def _ask(self, request: bytes, answer: bytes) -> int:
        """Return when the answer arrived, by the wall clock."""
        self._connection.sendall(request)
        heard, arrived_ns = b"", 0
        while answer not in heard:
            data, arrived_ns = received(self._connection)
            heard += data
        return arrived_ns


def main() -> None:
    """Read the ping from standard input; write all delays to standard output."""
    pin_load()
    pinger = _Pinger(msgspec.json.decode(sys.stdin.buffer.read(), type=Ping))
    delays_ms = []
    due = started = perf_counter()
    while (now := perf_counter()) < started + float(sys.argv[1]):
        if now < due:
            sleep(due - now)
        due = max(due + INTERVAL_SECONDS, perf_counter())
        delays_ms.append(pinger.delay_ms())
    sys.stdout.buffer.write(msgspec.json.encode(delays_ms))


if __name__ == "__main__":
    main()
