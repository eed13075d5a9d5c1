# SPDX-License-Identifier: Apache-2.0
"""Services as processes: they end when they should, and only those end that are ours."""

import ast
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from scripts.services import __main__ as services
from scripts.services import running
from scripts.services.dynamodb_local import shorten_log
from scripts.services.ports import HOST, free_port
from scripts.services.process import ServiceDied, ServiceProcess
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


class Sleeper(ServiceProcess):
    """A service that does nothing, as long as it is let."""

    name: ClassVar[str] = "Sleeper"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def command(self) -> list[str]:
        return ["sleep", "600"]

    def answers(self) -> bool:
        return True


class Failing(Sleeper):
    """A service that has only last words."""

    def command(self) -> list[str]:
        return ["sh", "-c", "echo no disk left"]

    def answers(self) -> bool:
        return False


class Silent(Failing):
    """A service that runs and never answers."""

    start_seconds_max = 0.1

    def command(self) -> list[str]:
        return ["sh", "-c", "echo booting; exec sleep 600"]


class Stubborn(Sleeper):
    """A service that does not end when it is asked to."""

    stop_seconds_max = 0.1

    def command(self) -> list[str]:
        return ["sh", "-c", "trap '' TERM; touch deaf; exec sleep 600"]

    def answers(self) -> bool:
        return (self.folder / "deaf").exists()


def is_alive(pid: int) -> bool:
    """Whether it runs; one that waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_service_that_dies_tells_what_it_said(tmp_path: Path) -> None:
    service = Failing(tmp_path)
    with pytest.raises(ServiceDied, match="no disk left"):
        service.start()
    assert not service.is_running


def test_a_service_that_never_answers_is_one_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def obtain() -> Path:
        with Silent(tmp_path / "obtain"):
            return tmp_path

    monkeypatch.setattr(services, "_OBTAIN", ({"Sleeper": obtain},))
    monkeypatch.setattr(running, "services", lambda: [Silent(tmp_path / "start", guarded=False)])
    for verb in ("obtain", "start"):
        monkeypatch.setattr(sys, "argv", ["services", verb])
        assert services.main() == 1
        log = tmp_path / verb / "service.log"
        assert capsys.readouterr().err.startswith(
            f"Sleeper did not answer within 0.1 s; its log is {log} and ends with: "
        )


def test_a_service_that_does_not_end_is_killed_and_named(tmp_path: Path) -> None:
    service = Stubborn(tmp_path)
    service.start()
    pid = service.pid
    with pytest.raises(ServiceDied, match=r"^Sleeper did not end within 0.1 s and was killed; "):
        service.stop()
    assert not is_alive(pid)


def test_a_restart_keeps_the_port_and_changes_the_process(tmp_path: Path) -> None:
    with Sleeper(tmp_path) as service:
        port, pid = service.port, service.pid
        service.restart()
        assert service.port == port
        assert service.pid != pid
        assert not is_alive(pid)


def test_a_paused_service_can_be_stopped(tmp_path: Path) -> None:
    with Sleeper(tmp_path) as service:
        pid = service.pid
        service.pause()
    assert not is_alive(pid)


@contextmanager
def other_process(script: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a script that prints a line and waits for the end of its input."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process, process.stdout.readline()
        process.stdin.close()


async def test_a_service_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.test_service_process import Sleeper\n"
        "service = Sleeper(Path(sys.argv[1])); service.start()\n"
        "print(service.pid, flush=True); sys.stdin.read()\n"
    )
    with other_process(script, tmp_path) as (starter, line):
        pid = int(line)
        assert is_alive(pid)
        starter.kill()
    await until(lambda: not is_alive(pid))


def test_a_free_port_is_not_one_that_clients_are_given() -> None:
    told = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    assert free_port() < int(told.split()[0])


def test_a_port_is_handed_out_once() -> None:
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500


def test_processes_that_run_side_by_side_never_get_the_same_port() -> None:
    script = (
        "import sys; from scripts.services.ports import free_port\n"
        "print({free_port() for _ in range(624)}, flush=True); sys.stdin.read()\n"
    )
    with other_process(script) as (_, line):
        ours = {free_port() for _ in range(600)}
    assert not ours & ast.literal_eval(line)


def test_what_was_started_is_found_again_and_stopped_once(tmp_path: Path) -> None:
    started, found = Sleeper(tmp_path, 1, guarded=False), Sleeper(tmp_path, 1, guarded=False)
    assert not running.is_up(found)
    running.start(started)
    assert running.is_up(found)
    assert running.stop(found)
    assert not running.is_up(found)
    assert not running.stop(found)
    started.stop()


def test_a_process_that_took_over_the_number_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        (tmp_path / "pid").write_text(str(stranger.pid))
        assert not running.stop(Sleeper(tmp_path, 1, guarded=False))
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("where", "code"), [({}, 0), ({"CI": "true"}, 1)])
def test_without_a_service_its_tests_are_skipped_aloud_or_fail_where_all_must_run(
    tmp_path: Path, where: dict[str, str], code: int
) -> None:
    kept = {name: text for name, text in os.environ.items() if name != "CI"}
    # Without the other plugins it starts in a quarter of the time.
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "pytest_timeout"]
    one_test = [*plugins, "tests/contract/test_dynamodb_expiry.py", "-k", "engine_deletes"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *one_test, f"--basetemp={tmp_path / 'run'}"],
        cwd=ROOT,
        env=kept | where | {"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NOT TESTED: all that needs DynamoDB Local: `java` is not installed" in ended.stdout
    assert ended.returncode == code


def test_a_long_write_ahead_log_is_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as service:
        service.execute("PRAGMA page_size = 512")
        service.execute("PRAGMA journal_mode = WAL")
        service.execute("PRAGMA wal_autocheckpoint = 0")  # as if there was never time for it
        service.execute("CREATE TABLE items (item)")

        def write(pages: int) -> int:
            service.execute("INSERT INTO items VALUES (zeroblob(?))", (pages * 512,))
            return (tmp_path / "tables.db-wal").stat().st_size

        long = write(12_000)
        shorten_log(path)
        assert write(6_000) == long, "the log has room, because it began anew"
        assert write(12_000) > long
