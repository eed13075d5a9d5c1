# SPDX-License-Identifier: Apache-2.0
"""Measures the state of this process, reports it to the other processes, and reads their reports.

Rates and times are differences between samples of the meters. A sample is taken every few seconds,
so that requests and messages pay nothing for it.
"""

import asyncio
import os
import shutil
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple

from tidings import __version__
from tidings.actions.state import REPORT_SECONDS, ListConnections, ReadDeployment, StateVerbs
from tidings.api.health import Health
from tidings.assembly import Core
from tidings.assembly.cluster import NAME_BYTES, ClusterLinks
from tidings.assembly.process import allocated_bytes
from tidings.config import Config, DynamoDb
from tidings.data_folder import last_backup_at
from tidings.diagnosis import running_loops
from tidings.fronts.owner import Fronts
from tidings.gateway.connection_states import AllConnections, OwnConnections, RemoteConnections
from tidings.gateway.hub import Hub
from tidings.gateway.metering import SENT
from tidings.metrics import declared
from tidings.metrics.meters import Histogram, Metric
from tidings.ports.processes import (
    DeploymentState,
    Lags,
    Latencies,
    Processes,
    ProcessState,
    Quantiles,
    Rates,
    StoreState,
    Trouble,
)
from tidings.ports.world import Clock
from tidings.stores.sqlite.engine.connections import DATABASE

WINDOW_SECONDS: Final = 60.0
SAMPLES_MAX: Final = int(WINDOW_SECONDS / REPORT_SECONDS)

_LATENCIES: Final[dict[str, tuple[Metric, tuple[object, ...]]]] = {
    "send": (declared.send_seconds, ("rest", "socket")),
    "delivery": (declared.delivery_seconds, ("local", "bus")),
    "hello": (declared.hello_seconds, ((),)),
    "loop": (declared.loop_lag_seconds, ((),)),
}
"""Histograms of which a state shows quantiles, each with the keys that are added up."""


class _Sample(NamedTuple):
    """The meters of this process at one time of a monotonic clock."""

    at: float
    counts: dict[str, float]
    """Totals since the start, by the name of their rate."""
    buckets: dict[str, list[int]]
    """Numbers of values in each bucket, by the name of their latency."""


def _sample(at: float) -> _Sample:
    frames = declared.frames.counts
    counts = {
        "messages": declared.entries.counts.get("message", 0),
        "entries": sum(declared.entries.counts.values()),
        "frames_in": sum(count for key, count in frames.items() if isinstance(key, type)),
        "frames_out": sum(SENT),
        "requests": sum(sum(one.counts) for one in declared.requests_seconds.of.values()),
        "refusals": sum(declared.refusals.counts.values()),
    }
    buckets = {
        name: _added([metric.of[key] for key in keys])
        for name, (metric, keys) in _LATENCIES.items()
    }
    return _Sample(at, counts, buckets)


def _added(histograms: Iterable[Histogram]) -> list[int]:
    return [sum(counts) for counts in zip(*(one.counts for one in histograms), strict=True)]


def rates_between(first: _Sample, last: _Sample) -> Rates:
    """Return the events per second between two samples."""
    seconds = max(last.at - first.at, 1.0)
    return Rates(
        **{
            name: round((count - first.counts[name]) / seconds, 3)
            for name, count in last.counts.items()
        }
    )


def latencies_between(first: _Sample, last: _Sample) -> Latencies:
    """Return the quantiles of the values that were measured between two samples."""
    return Latencies(
        **{
            name: quantiles(
                [now - then for then, now in zip(first.buckets[name], buckets, strict=True)],
                _LATENCIES[name][0].bounds,
            )
            for name, buckets in last.buckets.items()
        }
    )


def quantiles(counts: Sequence[int], bounds: Sequence[float]) -> Quantiles:
    """Return the bounds of the buckets with the median and the 99th percentile."""

    def bound_at(share: float) -> float | None:
        rank, seen = share * sum(counts), 0
        for count, bound in zip(counts, bounds, strict=False):
            seen += count
            if seen >= rank:
                return bound
        return bounds[-1]

    return Quantiles(bound_at(0.5), bound_at(0.99)) if any(counts) else Quantiles(None, None)


class StateSampler:
    """Samples the meters of this process, and computes its state from them."""

    def __init__(
        self,
        name: str,
        roles: tuple[str, ...],
        clock: Clock,
        hub: Hub,
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Take the first sample; `hub` has the sockets of this process."""
        self._name = name
        self._roles = roles
        self._clock = clock
        self._hub = hub
        self._started_at = clock.now()
        self._now = now
        self._samples = deque([_sample(now())], SAMPLES_MAX)
        """Samples of the last minute, the oldest first."""

    def sample(self) -> None:
        """Remember the meters; after a minute, rates and times begin with this sample."""
        self._samples.append(_sample(self._now()))

    def state(
        self, trouble: Trouble | None, bus_seconds: float | None, *, sees_revocations: bool
    ) -> ProcessState:
        """Return the state of this process now."""
        first, last = self._samples[0], _sample(self._now())
        return ProcessState(
            name=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            roles=self._roles,
            version=__version__,
            started_at=self._started_at,
            reported_at=self._clock.now(),
            trouble=trouble,
            sockets=len(self._hub),
            users=self._hub.users,
            memory_bytes=_memory_bytes(),
            rates=rates_between(first, last),
            latencies=latencies_between(first, last),
            lags=Lags(
                bus_seconds=bus_seconds,
                sees_revocations=sees_revocations,
                failing_loops=sum(loop.failures > 0 for loop in running_loops),
            ),
        )


class StateReporter:
    """Measures and reports the state of this process, and knows the states of the others."""

    def __init__(
        self,
        config: Config,
        core: Core,
        others: ClusterLinks | None,
        health: Health,
        hub: Hub,
        fronts: Fronts | None = None,
        *,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Set up the reports; `hub` has the sockets of this process, and `fronts` have the others
        of this server."""
        self._config = config
        self._core = core
        self._others = others
        self._health = health
        self._hub = hub
        self.name = others.name if others else core.chance.token(NAME_BYTES).hex()
        """Name of this process, which is new at every start."""
        self._fronts = fronts
        roles = config.process.roles
        self._sampler = StateSampler(self.name, roles, core.clock, hub, now=now)

    def verbs(self) -> StateVerbs:
        """Return the verbs that show the state."""
        store, clock, others = self._core.store, self._core.clock, self._others
        remote = None
        if others is not None:
            remote = RemoteConnections(others.registry, others.handover, self.name)
        elif self._fronts is not None:
            remote = RemoteConnections(self._fronts, self._fronts, self.name)
        connections = AllConnections(OwnConnections(self._hub, clock, self.name), remote)
        return StateVerbs(
            read=ReadDeployment(self, clock),
            list_connections=ListConnections(store.tenants, store.users, connections),
        )

    async def report_when_due(self) -> None:
        """Report the state of this process to the others, take a sample, and wait."""
        if self._others is not None:
            await self._others.processes.report(self.own_state())
        await asyncio.sleep(REPORT_SECONDS)
        self.sample()

    def sample(self) -> None:
        """Remember the meters; after a minute, rates and times begin with this sample."""
        self._sampler.sample()

    async def close(self) -> None:
        """Remove this process from the list of processes."""
        if self._others is not None:
            await self._others.processes.forget(self.name)

    async def states(self) -> Sequence[ProcessState]:
        if self._others is not None:
            return await self._others.processes.states()
        return self._fronts.states() if self._fronts is not None else ()

    def own_state(self) -> ProcessState:
        bus_seconds = round(self._others.backlog.seconds, 3) if self._others else None
        sees = self._core.watch.sees
        return self._sampler.state(self._health.trouble, bus_seconds, sees_revocations=sees)

    def deployment(self) -> DeploymentState:
        config = self._config
        return DeploymentState(
            epoch=self._core.store.deployment.epoch,
            bus="memory" if config.is_alone else "kafka",
            registry="memory" if config.is_alone else "redis",
            store=_store_state(config),
            settings=config.settings,
        )


def _memory_bytes() -> int:
    with suppress(OSError):  # only Linux has the file
        return allocated_bytes()
    return 0


def _store_state(config: Config) -> StoreState:
    if isinstance(config.store, DynamoDb):
        return StoreState(
            engine="dynamodb",
            location=f"{config.store.region} {config.store.prefix}",
            size_bytes=None,
            free_bytes=None,
            newest_backup_at=None,
        )
    folder = config.data.resolve()
    return StoreState(
        engine="sqlite",
        location=str(folder),
        size_bytes=sum(file.stat().st_size for file in folder.glob(f"{DATABASE}*")),
        free_bytes=shutil.disk_usage(folder).free,
        newest_backup_at=last_backup_at(folder),
    )


_conforms: type[Processes] = StateReporter
