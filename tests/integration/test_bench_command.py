# SPDX-License-Identifier: Apache-2.0
"""`tidings bench` against a real server: every message counted, a table, a chart, figures."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.harness.server import ServerProcess


async def bench(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidings", "bench", *options]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, cwd=folder, timeout=90
    )


async def test_a_deployment_is_measured(tmp_path: Path) -> None:
    async with ServerProcess(tmp_path / "data"):
        done = await bench(
            tmp_path, "--data", "data", "--pairs", "1", "3", "--window", "2",
            "--seconds", "0.5", "--chart", "chart.svg", "--json", "figures.json",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "chart.svg" in done.stdout
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [figure["pairs"] for figure in figures] == [1, 3]
    assert all(figure["sent"] > 0 and not figure["missing"] for figure in figures)


async def test_without_a_server_it_says_what_is_missing(tmp_path: Path) -> None:
    done = await bench(tmp_path, "--data", "nowhere", "--seconds", "0.5")
    assert done.returncode == 2
    assert "--url" in done.stderr
    assert "Traceback" not in done.stderr
