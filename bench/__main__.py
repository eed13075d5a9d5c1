# SPDX-License-Identifier: Apache-2.0
"""`python -m bench`: durable 1:1 throughput of a server on one core, load on the other."""

import argparse

import uvloop

from bench.server import own_server, pin_load
from bench.throughput import Result, throughput


def main() -> None:
    """Run each combination on a fresh server and print a table."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 10, 50, 200])
    parser.add_argument("--window", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    pin_load()
    print("Durable 1:1 messages: encrypted, idempotent, fsync before each answer; one server core.")
    print(Result.HEADER)
    for window in options.window:
        for pairs in options.pairs:
            print(uvloop.run(_run(pairs, window, options.seconds)).row(), flush=True)


async def _run(pairs: int, window: int, seconds: float) -> Result:
    async with own_server() as target:
        return await throughput(target, pairs, window, seconds)


if __name__ == "__main__":
    main()
