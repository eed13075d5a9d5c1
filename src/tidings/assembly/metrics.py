# SPDX-License-Identifier: Apache-2.0
"""Collects the metrics of this process, serves them on a listener of their own, starts traces."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from tidings import __version__
from tidings.actions.identity.caller import Caller, Root
from tidings.api.app import make_metrics_app
from tidings.api.callers import Authenticating
from tidings.assembly import Core
from tidings.assembly.cluster import ClusterLinks
from tidings.config import Config, DynamoDb
from tidings.data_folder import last_backup_at
from tidings.diagnosis import queue_depths, running_loops
from tidings.gateway.http.connection_limits import ConnectionLimits
from tidings.gateway.http.listener import Http, Listener
from tidings.metrics import declared
from tidings.metrics.meters import Packed, Reading, Series, add_up, report, snapshot
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import Unauthenticated
from tidings.model.setup_error import SetupError, optional_import
from tidings.tracing import spans

LAG_SECONDS: Final = 0.25
"""Interval of the measurements of the event loop's lag."""
DESCRIPTORS_MAX: Final = 128
"""Number of file descriptors from which the listener computes its limits on connections."""

log = logging.getLogger("tidings.metrics")


_others: Final[list[Callable[[], Awaitable[list[Packed]]]]] = []
"""Functions that read the metrics of the fronts of this process."""


@contextmanager
def included_metrics(read: Callable[[], Awaitable[list[Packed]]]) -> Iterator[None]:
    """Add the values that `read` returns to the metrics of this process, inside this context."""
    _others.append(read)
    try:
        yield
    finally:
        _others.remove(read)


async def metrics_text() -> str:
    """Return the metrics of this process and of its fronts as OpenMetrics text.

    The values are read at once. The text is made in a thread, because this takes milliseconds.
    """
    others = [packed for read in _others for packed in await read()]
    return await asyncio.to_thread(_render, add_up(snapshot(), others))


def _render(series: list[Series]) -> str:
    # Imported at the first request, because most commands and many servers never need the library.
    from tidings.metrics.exposition import render

    return render(series).decode()


async def measure_loop_lag() -> None:
    """Measure once by how much the event loop calls a timer too late."""
    loop = asyncio.get_running_loop()
    due = loop.time() + LAG_SECONDS
    await asyncio.sleep(LAG_SECONDS)
    declared.loop_lag_seconds.of[()].observe(max(0.0, loop.time() - due))


def root_only(core: Core) -> Authenticating:
    """Return the check of credentials in a process without the API, which serves only root."""

    async def authenticate(bearer: str) -> Caller:
        if not core.authenticate.is_root_header(b"Bearer " + bearer.encode("latin-1")):
            raise Unauthenticated
        return Root()

    return authenticate


@asynccontextmanager
async def open_tracer(config: Config) -> AsyncIterator[None]:
    """Switch traces on, if the settings name a collector, and off at the end.

    Raises:
        SetupError: The packages that this needs are not installed.
    """
    url, one_in = config.process.otlp, config.process.trace_one_in
    if url is None:
        yield
        return
    with optional_import("traces"):
        from tidings.otlp import make_tracer
    names = ("service.version", "tidings.store", "tidings.bus", "tidings.registry", "tidings.role")
    resource = {"service.name": "tidings", **dict(zip(names, _build_labels(config), strict=True))}
    tracer = make_tracer(url, one_in, resource)
    spans.install(tracer)
    try:
        yield
    finally:
        spans.install(None)
        await tracer.close()


class ProcessMetrics:
    """The metrics that describe a whole process, and the listener for all its metrics."""

    def __init__(self, config: Config, core: Core, others: ClusterLinks | None) -> None:
        self._address = config.process.metrics
        self._labels = _build_labels(config)
        self._epoch = core.store.deployment.epoch
        self._clock = core.clock
        self._folder = config.data
        self._backlog = others.backlog if others else None
        limits = ConnectionLimits(DESCRIPTORS_MAX)
        self._http = Http(make_metrics_app(metrics_text, core.chance), None, limits)
        self._listener = Listener(self._http.protocol, limits, has_sockets=False)
        report(self, ProcessMetrics._readings)

    async def open(self) -> None:
        """Listen, if the settings name an address for metrics.

        Raises:
            SetupError: The address is not available.
        """
        if self._address is None:
            return
        host, port = self._address
        try:
            await self._listener.open(host, port)
        except OSError as error:
            raise SetupError(
                f"cannot listen on {host}:{port} for metrics: {error.strerror}"
            ) from error
        extra = {"action": "metrics_listening", "host": host, "port": self._listener.port}
        log.info("metrics are served", extra=extra)

    async def close(self) -> None:
        """Stop listening."""
        await self._listener.close()
        await self._http.drain()

    def _readings(self) -> list[Reading]:
        readings: list[Reading] = [
            (declared.build_info, self._labels, 1),
            (declared.epoch_info, self._epoch, 1),
        ]
        for name, depths in queue_depths():
            readings += [(declared.queue_depth, (name, what), n) for what, n in depths.items()]
        for loop in running_loops:
            readings.append((declared.loop_failures, (loop.group, loop.step), loop.failures))
        if self._backlog is not None:
            readings.append((declared.bus_lag_seconds, "messages", self._backlog.seconds))
        if (backup_at := last_backup_at(self._folder)) is not None:
            age = self._clock.now() - backup_at
            readings.append((declared.backup_age, (), age / SECOND_MS))
        return readings


def _build_labels(config: Config) -> tuple[str, ...]:
    is_alone = config.is_alone
    return (
        __version__,
        "dynamodb" if isinstance(config.store, DynamoDb) else "sqlite",
        "memory" if is_alone else "kafka",
        "memory" if is_alone else "redis",
        ",".join(config.process.roles),
    )
