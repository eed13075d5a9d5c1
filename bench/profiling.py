# SPDX-License-Identifier: Apache-2.0
"""Finds out how the server spends the CPU time of a message, by stage and by component.

The server is sampled under full load. py-spy shows which Python function runs, which gives the
stages. perf shows which library or system call runs, which gives the components. Both are scaled to
the CPU time of one message.
"""

import asyncio
import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bench.server import own_server
from bench.stages import STAGES, by_component, by_stage
from tidings.tools import load_runs
from tidings.tools.load_crowd import Crowd

RATE: Final = 499
TAIL_SECONDS: Final = 1.0


class ProfileResult(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of one message in microseconds, by stage and by component."""

    pairs: int
    window: int
    by_stage: dict[str, float]
    by_component: dict[str, float]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8)


async def run(options: Namespace) -> ProfileResult:
    """Run the same load twice, once with each tool."""
    with tempfile.TemporaryDirectory() as folder:
        stacks, samples = Path(folder) / "stacks", Path(folder) / "perf.data"
        cost, _ = await _loaded(options, _py_spy(stacks, options.seconds))
        stages = _scaled(by_stage(stacks.read_text().splitlines()), cost)
        components: dict[str, float] = {}
        if shutil.which("perf"):
            cost, pid = await _loaded(options, _perf(samples, options.seconds))
            components = _scaled(by_component(await _read_perf(samples), pid), cost)
    print(f"One message, {options.pairs} pairs, window {options.window}, in microseconds.")
    _print("by stage", {stage: stages[stage] for stage in STAGES if stage in stages})
    _print("by component", components)
    return ProfileResult(
        pairs=options.pairs, window=options.window, by_stage=stages, by_component=components
    )


Tool = Callable[[int], list[str]]
"""Function that returns the command to sample a process."""


async def _loaded(options: Namespace, tool: Tool) -> tuple[float, int]:
    """Sample a new server under load; return the CPU time of a message, and the id of the
    process."""
    async with own_server() as target, Crowd(target.url, target.root_key) as crowd:
        await crowd.talkers(options.pairs)
        sampling = asyncio.create_task(_sample(tool(target.pid)))
        result = await load_runs.throughput(
            crowd,
            options.pairs,
            options.window,
            options.seconds + TAIL_SECONDS,
            server_cpu=target.cpu_seconds,
        )
        await sampling
    assert result.server_us is not None, "the server is a process of this machine"
    return result.server_us, target.pid


async def _sample(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{command[0]} could not sample: {said.decode(errors='replace')}")


def _py_spy(output: Path, seconds: float) -> Tool:
    program = str(Path(sys.executable).with_name("py-spy"))
    return lambda pid: [
        program, "record", "--format", "raw", "--rate", str(RATE), "--duration", f"{seconds:.0f}",
        "--output", str(output), "--pid", str(pid),
    ]  # fmt: skip


def _perf(output: Path, seconds: float) -> Tool:
    return lambda pid: [
        "perf", "record", "-F", str(4 * RATE), "-e", "cpu-clock", "-g", "-o", str(output),
        "-p", str(pid), "--", "sleep", f"{seconds:.0f}",
    ]  # fmt: skip


async def _read_perf(samples: Path) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        "perf", "script", "-i", str(samples), "-F", "tid,ip,sym,dso",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    output, _ = await process.communicate()
    return output.decode(errors="replace").splitlines()


def _scaled(samples: Counter[str], cost: float) -> dict[str, float]:
    """Return the share of each kind of sample in the CPU time of a message, largest first."""
    total = sum(samples.values())
    return {name: count / total * cost for name, count in samples.most_common()}


def _print(title: str, parts: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, cost in parts.items():
        print(f"  {name:24}{cost:7.1f} µs{cost / sum(parts.values()):7.1%}")
