# SPDX-License-Identifier: Apache-2.0
"""`tidings bench` against a running server: the table, the chart, and what it refuses."""

import asyncio
import os
from pathlib import Path
from time import monotonic
from xml.etree import ElementTree

import msgspec
import pytest

from tests.integration.engines import no_limits as no_limits
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tidings.cli import main
from tidings.tools.load_crowd import Crowd
from tidings.tools.load_runs import Result, paced
from tidings.tools.load_talker import LoadStopped

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those a test gives, and a folder for the chart."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


async def bench(*words: str) -> int:
    """Run the command beside the loop: it makes one of its own."""
    return await asyncio.to_thread(main, ["bench", *words])


async def test_every_message_arrives_and_is_counted(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--pairs", "2", "1", "--window", "1", "3", "--seconds", "0.2", "--json", "out.json"]

    async def ran() -> list[Result] | None:
        """The results, if the machine was fast enough for an answer within each run."""
        assert await bench("--data", str(server.data), *words) == 0
        results = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=list[Result])
        return results if all(result.sent for result in results) else None

    results = await until(ran)
    assert [(result.pairs, result.window) for result in results] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    for result in results:
        assert (result.missing, result.refused, result.server_cpu) == (0, 0, None)
        assert result.latency.count == result.sent
    ElementTree.parse(tmp_path / "tidings-bench.svg")
    told = capsys.readouterr().out
    assert "sent/s" in told
    assert len(told.splitlines()) % (2 + 4 + 1) == 0


async def test_the_server_may_be_named(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = str(server.data / "root.key")
    words = ["--pairs", "1", "--window", "1", "--seconds", "0.1", "--chart", "mine.svg"]
    assert await bench("--url", server.url, "--root-key-file", key, *words) == 0
    assert (tmp_path / "mine.svg").exists()
    (tmp_path / "wrong.key").write_text("another-key-of-more-than-32-characters")
    assert await bench("--url", server.url, "--root-key-file", "wrong.key", *words) == 2
    assert "401" in capsys.readouterr().err


async def test_what_is_missing_is_told(
    server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, reason in (
        ([], "no server has the folder"),
        (["--url", server.url], "there is no root key"),
        (["--url", server.url, "--root-key-file", "nowhere"], "nowhere"),
    ):
        assert await bench(*words) == 2
        assert reason in capsys.readouterr().err
    with pytest.raises(SystemExit):
        await bench("--pairs", "0")


async def test_at_a_pace(server: ServerProcess) -> None:
    async with Crowd(server.url, server.root_key) as crowd:
        ticks: list[int] = []
        began = monotonic()
        result = await paced(
            crowd, 3, 300, 0.6, warm_up_seconds=0.1, tick=lambda sent, _: ticks.append(sent)
        )
        assert (result.missing, result.window) == (0, 0)
        assert ticks == sorted(ticks)
        [*talkers, last] = await crowd.talkers(3)
        sent = sum(talker.acknowledged for talker in (*talkers, last))
        assert 0 < sent <= 300 * (monotonic() - began), "no faster than the pace"
        last.close()
        crowd.watch.stopped("the server said bye")
        with pytest.raises(LoadStopped, match="bye"):
            await paced(crowd, 3, 300, 0.6)
