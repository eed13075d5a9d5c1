# SPDX-License-Identifier: Apache-2.0
"""When the supervisor starts a process again, and when it gives up."""

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import msgspec
import pytest

from tests.support.cluster import Services, many_processes
from tests.support.settings import config_of
from tidings.assembly.adapters import import_adapters
from tidings.assembly.supervisor import EARLY_ENDS_MAX
from tidings.cli.serve_many import with_metrics_of_its_own
from tidings.config import Sqs, Webhook
from tidings.config.settings import Smtp

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as some parents leave it
from pathlib import Path
from tidings.assembly.supervisor import SupervisedJob, Supervisor

told = Path(sys.argv[1])

def note(word):
    with told.open("a") as file:
        file.write(word + " ")
    return told.read_text().split().count(word)

def serve(supervised):
    note("owner")
    supervised.say_ready()
    signal.sigwait({signal.SIGTERM})
    return 0

def end(code):
    def run(supervised):
        note("owner")
        return code
    return run

def fail_once(supervised):
    if note("front") < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    supervised.say_ready()
    os.kill(os.getppid(), signal.SIGTERM)
    supervised.control.recv(1)  # until the supervisor ends it
    return 0

def fail(supervised):
    note("front")
    return 3

def block(run):
    def blocked(supervised):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        return run(supervised)
    return blocked
"""


def outcome(folder: Path, jobs: str, before: str = "") -> tuple[int, list[str]]:
    """Run a supervisor after these statements; return its exit code, and which processes ran."""
    told = folder / "told"
    told.write_text("")
    program = PROGRAM + before + f"\nsys.exit(Supervisor([{textwrap.dedent(jobs)}], []).run())"
    done = subprocess.run([sys.executable, "-c", program, str(told)], timeout=60, check=False)
    return done.returncode, sorted(told.read_text().split())


def test_a_front_that_dies_is_started_again_and_a_signal_ends_all(tmp_path: Path) -> None:
    jobs = """
        SupervisedJob("owner", block(serve)), SupervisedJob("front", fail_once, is_front=True)
    """
    assert outcome(tmp_path, jobs.strip()) == (0, ["front", "front", "owner"])


FORK_FAILS = """
from tidings.assembly import supervisor
supervisor.WAIT_SECONDS_MAX = 0.01
fork, forks = os.fork, iter([True, False, False])

def fork_or_fail():
    if next(forks, True):
        return fork()
    raise BlockingIOError("no process can be made now")

os.fork = fork_or_fail
"""


def test_a_process_that_cannot_be_made_is_started_later(tmp_path: Path) -> None:
    jobs = 'SupervisedJob("owner", block(serve)), SupervisedJob("front", fail_once, is_front=True)'
    assert outcome(tmp_path, jobs, FORK_FAILS) == (0, ["front", "front", "owner"])


def test_a_front_that_is_never_ready_ends_the_server(tmp_path: Path) -> None:
    jobs = 'SupervisedJob("owner", block(serve)), SupervisedJob("front", fail, is_front=True)'
    code, ran = outcome(tmp_path, jobs)
    assert (code, ran) == (3, ["front"] * EARLY_ENDS_MAX + ["owner"])


@pytest.mark.parametrize("code", [0, 1, 2])
def test_an_owner_that_ends_before_it_is_ready_is_not_started_again(
    tmp_path: Path, code: int
) -> None:
    assert outcome(tmp_path, f'SupervisedJob("owner", end({code}))') == (code, ["owner"])


SERVER = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.settings import config_of
from tidings.assembly import server
from tidings.assembly.supervisor import Supervisor
from tidings.cli.serve_many import serve_many

config = config_of(data=Path(sys.argv[1]), port=0, metrics=("127.0.0.1", 0))
Supervisor.run = lambda self: 0
serve_many(config, print, has_demo=False)
imported = set(sys.modules)
asyncio.run(server.serve(config, lambda _: os.kill(os.getpid(), signal.SIGTERM)))
print(*(name for name in set(sys.modules) - imported if name.startswith("tidings")))
"""


def test_a_process_that_starts_again_imports_nothing_of_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path / "data")],
        cwd=ROOT,
        timeout=60,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    assert done.stdout.split() == []


def test_the_adapters_of_all_services_are_imported_without_a_thread() -> None:
    webhook = Webhook(url="https://example.org", secret="secret")
    services = Services("http://127.0.0.1:1", "127.0.0.1:2", "redis://127.0.0.1:3")
    config = msgspec.structs.replace(
        config_of(**many_processes(services, "x-"), otlp="http://127.0.0.1:4"),
        sqs=Sqs(queue_url="https://example.org", region="eu-west-1"),
        push=webhook,
        sms=webhook,
        email=Smtp(url="smtp://example.org", sender="news@example.org"),
        blobs="s3://bucket",
    )
    threads = threading.active_count()
    import_adapters(config)
    assert threading.active_count() == threads
    store, bus = "tidings.stores.dynamodb.store", "tidings.buses.kafka"
    assert {store, bus, "tidings.otlp", "tidings.outgoing.smtp"} <= sys.modules.keys()


def test_each_gateway_shows_its_metrics_on_a_port_of_its_own() -> None:
    def ports(port: int) -> list[tuple[str, int] | None]:
        config = config_of(metrics=("127.0.0.1", port))
        return [with_metrics_of_its_own(config, number).process.metrics for number in range(2)]

    assert ports(9_100) == [("127.0.0.1", 9_100), ("127.0.0.1", 9_101)]
    assert ports(0) == [("127.0.0.1", 0), ("127.0.0.1", 0)]
