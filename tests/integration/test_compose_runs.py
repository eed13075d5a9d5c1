# SPDX-License-Identifier: Apache-2.0
"""The Compose deployment runs with Docker, by the commands of its page, and does what it says.

These tests need root, Go, mmdebstrap and unshare, and take many minutes. They use no registry of
images: `scripts.stand_ins` makes images with the names that the Compose file asks for.
`tests/unit/test_compose.py` checks what can be checked without running it.
"""

import asyncio
import json
import mmap
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from scripts.services.docker_engine import DockerEngine
from scripts.services.obtaining import Unavailable, program
from scripts.stand_ins.images import make
from tests.integration.socket_town import told
from tests.support.device import Device
from tests.support.inbox import Inbox
from tests.support.people import Person, Town
from tests.support.services import do_without
from tests.support.waiting import retried

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-to/run-with-compose.md"
URL = "http://127.0.0.1:8080"
OURS = ("gateway-1", "gateway-2", "api", "worker-1", "worker-2")
HEALTHY = {*OURS, "load-balancer", "kafka", "redis"}
LATE_SECONDS = 300.0
"""A message arrives seconds later without Kafka, and later still if the machine is busy."""
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "tests", "bench")


class Deployment:
    """A copy of this clone, from which Docker runs the Compose file."""

    def __init__(self, clone: Path, environment: dict[str, str]) -> None:
        self.folder = clone / "deploy/compose"
        self._environment = environment

    def follow_page(self, heading: str, folder: Path) -> str:
        """Run the commands below a heading of the page; return what they print."""
        below = PAGE.read_text().partition(f"\n## {heading}\n")[2]
        commands = re.search(r"```sh\n(.*?)```", below, re.DOTALL)
        assert commands is not None
        return self._run(folder, "bash", "-euo", "pipefail", "-c", commands[1])

    def docker(self, *words: str) -> str:
        return self._run(self.folder, "docker", *words)

    def compose(self, *words: str) -> str:
        return self.docker("compose", *words)

    def up(self) -> None:
        """Start what does not run, again if a process gave up on a busy DynamoDB Local, as the page
        says."""
        if self.fails("up", "--wait") and self.fails("up", "--wait"):
            self.compose("up", "--wait")

    def fails(self, *words: str) -> bool:
        """Whether this command of Compose fails."""
        command = ["docker", "compose", *words]
        ended = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, check=False
        )
        return ended.returncode != 0

    def secrets(self) -> dict[str, str]:
        lines = (self.folder / ".env").read_text().splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def _run(self, folder: Path, *command: str) -> str:
        ended = subprocess.run(
            command, cwd=folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout[-2_000:]}{ended.stderr[-4_000:]}"
        return ended.stdout


@pytest.fixture(scope="module")
def deployment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """The deployment, started as the page says. The tests are in the network of its engine."""
    folder = tmp_path_factory.mktemp("docker")
    engine, clone = DockerEngine(folder / "engine"), folder / "clone"
    shutil.copytree(ROOT, clone, ignore=LEFT_OUT)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        try:
            for name in ("mmdebstrap", "ip"):
                program(name)
            client = engine.client_environment()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(engine)
            for name, value in client.items():
                patch.setenv(name, value)
            make()
        except Unavailable as error:
            do_without(request.config, engine.name, str(error))
        stack.enter_context(engine.network_entered())
        started = Deployment(clone, dict(os.environ))
        assert started.follow_page("Start", clone).strip().endswith('{"status":"ready"}')
        yield started
        started.compose("down", "--volumes")


@pytest_asyncio.fixture
async def town(deployment: Deployment) -> AsyncIterator[Town]:
    """A tenant of the test's own."""
    root_key = deployment.secrets()["TIDINGS_ROOT_KEY"]
    async with Town(URL, root_key, f"town-{uuid4().hex[:8]}") as made:
        yield made


async def a_pair(town: Town) -> tuple[Person, Person, str]:
    """Two people and their chat. On a busy machine DynamoDB Local answers late: they try again."""

    async def made() -> tuple[Person, Person, str]:
        ann, bob = [await town.user(f"{name}-{uuid4().hex[:8]}") for name in ("ann", "bob")]
        return ann, bob, await ann.create_direct(bob)

    return await retried(made, httpx.HTTPStatusError)


async def talk(sender: Device | Person, receiver: Device, chat: str) -> None:
    """Send a message, and wait until the other device has it and all before it."""
    key = uuid4().hex
    sent = await retried(
        lambda: sender.send(chat, client_message_id=key), httpx.HTTPStatusError, httpx.ReadError
    )
    await receiver.until(lambda: receiver.logs.have.get(chat) == sent["sequence"], LATE_SECONDS)


async def log_of(person: Person, chat: str) -> list[int]:
    entries = await retried(lambda: person.log(chat), httpx.HTTPStatusError)
    return [entry["sequence"] for entry in entries]


def test_everything_is_healthy(deployment: Deployment) -> None:
    lines = deployment.compose("ps", "--all", "--format", "json").splitlines()
    found = {state["Service"]: state for state in map(json.loads, lines)}
    assert {name for name, state in found.items() if state["Health"] == "healthy"} == HEALTHY
    assert found["dynamodb"]["State"] == "running"
    assert (found["schema"]["State"], found["schema"]["ExitCode"]) == ("exited", 0)
    assert found.keys() == HEALTHY | {"dynamodb", "schema"}


def test_the_container_has_the_command_and_the_root_key(deployment: Deployment) -> None:
    *_, key, token = deployment.follow_page("Use it", deployment.folder).split()
    assert key != token
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token), "a token for a user"


async def test_people_talk_and_are_notified_through_the_load_balancer(town: Town) -> None:
    ann, bob, chat = await a_pair(town)
    inbox = await Inbox(town).make()
    async with ann.device() as first, bob.device() as second:
        await talk(ann, second, chat)
        await talk(first, second, chat)
        await talk(second, first, chat)
        posted = await inbox.post([bob.user_id])
        await second.frame("notification", id=posted["id"])
    assert [one["id"] for one in await inbox.listed(bob)] == [posted["id"]]
    assert told(first, "notification") == []


async def test_gateways_restart_and_nothing_is_lost(deployment: Deployment, town: Town) -> None:
    ann, bob, chat = await a_pair(town)
    async with ann.device(reconnects=True) as first, bob.device(reconnects=True) as second:
        for gateway in ("gateway-1", "gateway-2"):
            restart = asyncio.create_task(asyncio.to_thread(deployment.compose, "restart", gateway))
            while not restart.done():
                await talk(first, second, chat)
                await talk(second, first, chat)
            await restart
            await asyncio.to_thread(deployment.up)
        assert first.closes, "the socket was on one of the two gateways"
        assert second.closes
        assert first.resyncs == second.resyncs == []
    assert await log_of(bob, chat) == list(range(1, second.logs.have[chat] + 1))


@pytest.mark.parametrize(
    "fault",
    [("kill", "gateway-1"), ("stop", "worker-1"), ("stop", "kafka"), ("stop", "redis")],
    ids=" ".join,
)
async def test_messages_arrive_without(
    deployment: Deployment, town: Town, fault: tuple[str, str]
) -> None:
    ann, bob, chat = await a_pair(town)
    async with ann.device(reconnects=True) as first, bob.device(reconnects=True) as second:
        await asyncio.to_thread(deployment.compose, *fault)
        await talk(first, second, chat)
        await talk(second, first, chat)
        await asyncio.to_thread(deployment.up)
        await talk(ann, second, chat)


async def test_data_outlives_the_containers(deployment: Deployment, town: Town) -> None:
    ann, bob, chat = await a_pair(town)
    async with ann.device() as first, bob.device(reconnects=True) as second:
        await talk(first, second, chat)
        stored = await log_of(bob, chat)
        await asyncio.to_thread(deployment.compose, "down")
        assert deployment.docker("ps", "--all", "--quiet") == ""
        await asyncio.to_thread(deployment.up)
        assert await log_of(bob, chat) == stored
        await talk(ann, second, chat)
    volumes = deployment.docker("volume", "ls", "--format", "{{.Name}}").split()
    named = [name for name in volumes if name.startswith("tidings_")]
    assert sorted(named) == ["tidings_dynamodb", "tidings_kafka"]


@pytest.mark.parametrize("service", OURS)
def test_processes_have_no_rights(deployment: Deployment, service: str) -> None:
    def inside(*words: str) -> tuple[str, ...]:
        return ("exec", "--no-TTY", service, *words)

    assert deployment.compose(*inside("id", "-u")).strip() == "10001"
    status = deployment.compose(*inside("cat", "/proc/1/status"))
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    for place in ("/opt/tidings/x", "/etc/x", "/x"):
        assert deployment.fails(*inside("touch", place))
    deployment.compose(*inside("touch", "/tmp/x", "/var/lib/tidings/x"))


def test_the_image_contains_no_secret(deployment: Deployment, tmp_path: Path) -> None:
    saved = tmp_path / "image.tar"
    services = json.loads(deployment.compose("config", "--format", "json"))["services"]
    deployment.docker("save", "--output", str(saved), services["api"]["image"])
    with saved.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
        assert bytes_.find((ROOT / "src/tidings/__init__.py").read_bytes()) >= 0, "not compressed"
        for name, secret in deployment.secrets().items():
            assert bytes_.find(secret.encode()) < 0, name
    saved.unlink()
