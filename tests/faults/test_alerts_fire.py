# SPDX-License-Identifier: Apache-2.0
"""Alerts in a real Prometheus, over a real server with load: each fires during its fault, and
clears.

The rules are those of the deployment, in which a second counts as a minute. The alerts about Kafka,
the relay and push notices need a fleet: see `test_fleet_alerts_fire.py`.
"""

import asyncio
import os
import resource
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

import httpx
import pytest

from scripts.observability.pictures import draw_dashboard
from scripts.observability.rules import RULES
from scripts.services.ports import HOST, free_port
from scripts.services.prometheus import PrometheusServer, sped_up
from scripts.write_generated import ROOT
from tests.faults.faulty_server import FAULTY, switch
from tests.integration.socket_town import friends
from tests.support.client_socket import Socket
from tests.support.command import tidings
from tests.support.explaining import as_tenant
from tests.support.hook_server import open_hook
from tests.support.inbox import Inbox
from tests.support.people import Person, Town
from tests.support.server import NO_LIMITS, ServerProcess
from tests.support.waiting import until
from tidings.data_folder import LAST_BACKUP
from tidings.stores.sqlite.engine.connections import DATABASE

SECONDS_MAX = 240.0
WRITES = 600
"""Concurrent writes that make the store busy for longer than the alert waits."""


@dataclass
class Watching:
    """A Prometheus that watches servers."""

    prometheus: PrometheusServer

    async def until_firing(self, *names: str) -> None:
        """Wait until each of these alerts has fired. Some clear while others still wait."""
        fired: set[str] = set()

        def are_seen(firing: set[str]) -> bool:
            fired.update(firing)
            return fired >= set(names)

        await self._until(are_seen, names)

    async def until_clear(self) -> None:
        """Wait until no alert fires. On a machine that is busy with other work, the alert about
        late timers is right to fire."""
        await self._until(lambda firing: firing <= {"TidingsLoopSlow"}, ())

    async def _until(self, is_right: Callable[[set[str]], bool], names: tuple[str, ...]) -> None:
        seen: set[str] = set()

        async def looked() -> bool:
            nonlocal seen
            seen = await asyncio.to_thread(self.prometheus.firing)
            return is_right(seen)

        await until(looked, seconds=SECONDS_MAX, describe=lambda: f"{seen} fire, expected {names}")


@dataclass
class Watched(Watching):
    """A server with load, another server, and a Prometheus that watches both."""

    server: ServerProcess
    other: ServerProcess
    town: Town
    chat: str
    ann: Person
    bob: Person

    def fault(self, name: str, *, is_on: bool) -> None:
        """Switch a fault of the server on or off."""
        switch(self.server.data, name, is_on=is_on)


def a_server(folder: Path, launcher: Path | None = None) -> ServerProcess:
    metrics = {"TIDINGS_METRICS": str(free_port()), **NO_LIMITS}
    hooks = {"TIDINGS_OUTGOING_ALLOW": HOST}
    return ServerProcess(folder, environment=metrics | hooks, launcher=launcher)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with (
        a_server(tmp_path / "data", FAULTY) as server,
        a_server(tmp_path / "other") as other,
        Town(server.url, server.root_key) as town,
    ):
        targets = [f"{HOST}:{one.environment['TIDINGS_METRICS']}" for one in (server, other)]
        rules = sped_up((ROOT / RULES).read_text())
        prometheus = PrometheusServer(tmp_path / "prometheus", targets, rules)
        chat, (ann, bob) = await friends(town, "ann", "bob")
        await ann.send(chat, "before all faults")
        await asyncio.to_thread(prometheus.start)
        try:
            await until(lambda: asyncio.to_thread(prometheus.sees_all))
            made = Watched(prometheus, server, other, town, chat, ann, bob)
            async with working(lambda: talk(made)):
                yield made
        finally:
            await asyncio.to_thread(prometheus.stop)


@asynccontextmanager
async def working(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run work again and again inside this context. It may fail while a fault is on."""

    async def repeat() -> None:
        while True:
            with suppress(Exception):
                await work()
            await asyncio.sleep(0.01)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def talk(watched: Watched) -> None:
    """Post messages at a steady rate, and let the other device receive and read."""
    async with watched.ann.device() as first, watched.bob.device():
        for _ in range(100):
            await first.send(watched.chat)
            await watched.bob.request("GET", f"/v1/chats/{watched.chat}")
            await asyncio.sleep(0.05)


async def pause_again_and_again(server: ServerProcess) -> None:
    """Stop the process for a moment, as a machine does that has too little CPU time."""
    os.kill(server.pid, signal.SIGSTOP)
    await asyncio.sleep(0.5)
    os.kill(server.pid, signal.SIGCONT)
    await asyncio.sleep(0.7)


async def hello_in_vain(watched: Watched) -> None:
    """Connect while the chats of the user cannot be read."""
    socket = Socket(watched.server.url)
    await socket.open()
    socket.tell({"op": "hello", "token": watched.bob.token, "device": "tablet"})
    with suppress(Exception):
        await socket.frame("bye")
    await socket.drop()


async def write_much(watched: Watched) -> None:
    """Write more than the store can, until it does again."""
    async with httpx.AsyncClient(
        base_url=watched.server.url, timeout=SECONDS_MAX, trust_env=False,
        limits=httpx.Limits(max_connections=None),
    ) as http:  # fmt: skip
        headers = {"Authorization": f"Bearer {await watched.town.tenant_key()}"}
        path = f"/v1/tenants/{watched.town.tenant}/users/writer-"
        async with asyncio.TaskGroup() as group:
            for number in range(WRITES):
                group.create_task(http.put(f"{path}{number}", json={}, headers=headers))


@asynccontextmanager
async def checked(server: ServerProcess) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that sends a message of a tenant whose hook fails."""
    async with open_hook() as hook, Town(server.url, server.root_key, "checked") as town:
        hook.status = 500
        rule = {"url": hook.url, "timeout_ms": 1_000, "on_failure": "allow"}
        await as_tenant(town, "PUT", "settings", {"before_send": rule})
        chat, (cat, _) = await friends(town, "cat", "dan")

        async def send() -> None:
            await cat.send(chat)

        yield send


@contextmanager
def tampered(server: ServerProcess) -> Iterator[None]:
    """Change the content of messages in the store, as somebody with the file could, and then
    repair it."""
    db = sqlite3.connect(server.data / DATABASE, timeout=30, isolation_level=None)
    change = "UPDATE messages SET box = ? WHERE chat_id = ? AND sequence = ?"
    boxes = db.execute(
        "SELECT box, chat_id, sequence FROM messages WHERE box IS NOT NULL"
    ).fetchall()
    db.executemany(change, [(bytes(len(box)), *place) for box, *place in boxes])
    yield
    db.executemany(change, boxes)
    db.close()


def allow_files(server: ServerProcess, share: float) -> tuple[int, int]:
    """Lower the number of files that the process may open, so that it uses this share of them."""
    opened = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (int(opened / share), before[1]))
    return before


@pytest.mark.soak
async def test_each_alert_of_a_single_process_fires_during_its_fault_and_clears(
    watched: Watched, tmp_path: Path
) -> None:
    began, server = time(), watched.server
    # Damage, neglect, and another process that is gone.
    with tampered(server):
        await watched.bob.history(watched.chat)
        await watched.until_firing("TidingsContentTampered")
    (server.data / LAST_BACKUP).write_text("2020-01-01T00:00:00.000Z")
    await watched.other.kill()
    for fault in ("loop", "jobs"):
        watched.fault(fault, is_on=True)
    inbox = await Inbox(watched.town).make()
    await inbox.post([watched.ann.user_id])
    before = allow_files(server, 0.85)
    await watched.until_firing(
        "TidingsBackupOld", "TidingsDown", "TidingsLoopFailing",
        "TidingsJobsAside", "TidingsFilesUsedUp",
    )  # fmt: skip
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
    for fault in ("loop", "jobs"):
        watched.fault(fault, is_on=False)
    await watched.other.start()
    assert (await tidings("backup", tmp_path / "backups", "--data", server.data)).code == 0

    # A hook that gives no verdict.
    async with checked(server) as hook, working(hook):
        await watched.until_firing("TidingsHookFailing")

    # A slow disk under load.
    watched.fault("slow-disk", is_on=True)
    await watched.until_firing("TidingsSendsSlow", "TidingsDeliverySlow", "TidingsCommitsSlow")
    async with working(lambda: write_much(watched)):
        await watched.until_firing("TidingsStoreBusy")
        watched.fault("slow-disk", is_on=False)

    # A bug, a store that does not answer, and a process without CPU time.
    watched.fault("bug", is_on=True)
    await watched.until_firing("TidingsErrors")
    watched.fault("bug", is_on=False)
    watched.fault("lists", is_on=True)
    async with working(lambda: hello_in_vain(watched)):
        await watched.until_firing("TidingsSocketsOverloaded")
    watched.fault("lists", is_on=False)
    async with working(lambda: pause_again_and_again(server)):
        await watched.until_firing("TidingsLoopSlow")
    os.kill(server.pid, signal.SIGCONT)

    await watched.until_clear()
    # With PICTURES=docs/images, the pictures of the documentation are replaced.
    if folder := os.environ.get("PICTURES"):
        await asyncio.to_thread(draw_dashboard, watched.prometheus, began, time(), Path(folder))
