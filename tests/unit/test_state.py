# SPDX-License-Identifier: Apache-2.0
"""The state of a deployment: what a process measures, and what of the others is known."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.settings import config_of
from tests.support.users import ANN, BOB
from tests.unit.gateway_bench import GatewayBench, a_gateway
from tidings.actions.identity.caller import Root, TenantCaller
from tidings.actions.state import REPORT_SECONDS, SILENT_MS, ReadDeployment, StateVerbs
from tidings.api.state import StateRecord, get_state
from tidings.assembly.state import SAMPLES_MAX, StateReporter, quantiles
from tidings.data_folder import LAST_BACKUP
from tidings.gateway.connection_states import AllConnections, OwnConnections
from tidings.metrics import declared
from tidings.model.ids import rfc3339
from tidings.model.refusals import Forbidden
from tidings.ports.delivery import RegistryUnavailable
from tidings.ports.processes import DeploymentState, Processes, ProcessState, Quantiles, Trouble


class Healthy:
    trouble: Trouble | None = None


class Elapsed:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[GatewayBench]:
    async with a_gateway(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def elapsed() -> Elapsed:
    return Elapsed()


@pytest.fixture
def reporter(bench: GatewayBench, elapsed: Elapsed, tmp_path: Path) -> StateReporter:
    config = config_of(data=tmp_path / "data")
    return StateReporter(config, bench.core, None, Healthy(), bench.hub, now=elapsed)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0, 0, 0, 0], Quantiles(None, None)),
        ([5, 0, 0, 0], Quantiles(1.0, 1.0)),
        ([50, 49, 1, 0], Quantiles(1.0, 2.0)),
        ([50, 48, 2, 0], Quantiles(1.0, 3.0)),
        ([0, 0, 0, 9], Quantiles(3.0, 3.0)),
    ],
)
def test_quantiles_are_bounds_of_buckets(counts: list[int], expected: Quantiles) -> None:
    assert quantiles(counts, (1.0, 2.0, 3.0)) == expected


async def test_a_process_measures_its_last_minute(
    reporter: StateReporter, bench: GatewayBench, elapsed: Elapsed
) -> None:
    chat = await bench.group(ANN, BOB)
    await bench.line().live(BOB)
    await bench.post(ANN, chat, 5)
    declared.send_seconds.of["rest"].observe(0.2)
    elapsed.seconds = 10.0
    state = reporter.own_state()
    assert (state.rates.messages, state.rates.entries) == (0.5, 0.6)
    assert state.latencies.send == Quantiles(0.25, 0.25)
    assert (state.sockets, state.users, state.trouble) == (1, 1, None)
    assert state.roles == ("gateway", "api", "worker", "relay")
    assert state.lags.bus_seconds is None
    for _ in range(SAMPLES_MAX):
        elapsed.seconds += REPORT_SECONDS
        reporter.sample()
    state = reporter.own_state()
    assert state.rates.messages == 0, "what is older than a minute does not count"
    assert state.latencies.send == Quantiles(None, None)


async def test_the_store_is_shown_with_its_size_and_newest_backup(
    reporter: StateReporter, tmp_path: Path
) -> None:
    store = reporter.deployment().store
    assert (store.engine, store.location) == ("sqlite", str(tmp_path / "data"))
    assert store.size_bytes
    assert store.free_bytes
    assert store.newest_backup_at is None
    (tmp_path / "data" / LAST_BACKUP).write_text("2026-01-02T03:04:05.678Z")
    at = reporter.deployment().store.newest_backup_at
    assert at is not None
    assert rfc3339(at) == "2026-01-02T03:04:05.678Z"


class OtherProcesses:
    """This process and others, which may be unknown."""

    def __init__(self, reporter: StateReporter, others: Sequence[ProcessState]) -> None:
        self._reporter = reporter
        self._others = others
        self.is_up = True

    async def states(self) -> Sequence[ProcessState]:
        if not self.is_up:
            raise RegistryUnavailable
        return [self._reporter.own_state(), *self._others]

    def own_state(self) -> ProcessState:
        return self._reporter.own_state()

    def deployment(self) -> DeploymentState:
        return self._reporter.deployment()


_conforms: type[Processes] = OtherProcesses


async def test_a_process_that_no_longer_reports_is_silent_and_in_no_total(
    reporter: StateReporter, bench: GatewayBench
) -> None:
    own = reporter.own_state()
    silent_at = bench.clock.time - SILENT_MS
    others = [
        replace(own, name="b", reported_at=silent_at, sockets=7, started_at=own.started_at - 1),
        replace(own, name="c", reported_at=silent_at + 1, sockets=3, started_at=own.started_at + 1),
        replace(own, name="d", trouble="draining", started_at=own.started_at + 2),
    ]
    processes = OtherProcesses(reporter, others)
    read = ReadDeployment(processes, bench.clock)
    state = await _shown(read)
    assert [(one.name, one.status) for one in state.processes] == [
        ("b", "silent"),
        (own.name, "ready"),
        ("c", "ready"),
        ("d", "draining"),
    ]
    assert (state.totals.processes, state.totals.sockets) == (3, 3)
    assert (state.answered_by, state.complete) == (own.name, True)
    processes.is_up = False
    state = await _shown(read)
    assert [one.name for one in state.processes] == [own.name]
    assert not state.complete
    with pytest.raises(Forbidden):
        await read(TenantCaller("acme", "k1"))


async def _shown(read: ReadDeployment) -> StateRecord:
    nowhere: Any = None
    record = await get_state.handler(Root(), StateVerbs(read, nowhere))
    assert isinstance(record, StateRecord)
    return record


async def test_a_connection_shows_its_window_and_when_it_last_acknowledged(
    bench: GatewayBench,
) -> None:
    chat = await bench.group(ANN, BOB)
    line = bench.line(window=10)
    line.address, line.time = "192.0.2.1", 5_000
    line.conversation.opened_at = 2_000
    await line.live(BOB, client="web/1.2")
    await bench.post(ANN, chat, 3)
    await line.until_entries(chat, 4)
    connections = AllConnections(OwnConnections(bench.hub, bench.clock, "p1"), None)
    ([state], is_complete) = await connections.of(BOB)
    assert is_complete
    assert (state.process, state.device, state.address) == ("p1", "phone", "192.0.2.1")
    assert (state.client, state.window, state.unacknowledged) == ("web/1.2", 10, 4)
    assert (state.chats, state.behind, state.received_at) == (1, 0, None)
    assert state.since == bench.clock.time - 3_000
    line.time = 6_000
    line.say("received", chat=chat, sequence=3)
    line.say("away", away=True)
    line.time = 8_000
    ([state], _) = await connections.of(BOB)
    assert (state.unacknowledged, state.is_away) == (1, True)
    assert state.received_at == bench.clock.time - 2_000
    assert state.used_at == bench.clock.time - 3_000, "hello was the last request"
    await line.hang_up()
    assert await connections.of(BOB) == ([], True)
