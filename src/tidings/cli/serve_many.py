# SPDX-License-Identifier: Apache-2.0
"""`tidings serve --processes N`: runs one server as several processes behind one address."""

import gc
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import uvloop

from tidings.assembly import server
from tidings.assembly.adapters import import_adapters
from tidings.assembly.control import Supervised
from tidings.assembly.front import run_front
from tidings.assembly.supervisor import SupervisedJob, Supervisor
from tidings.cli.exit_codes import exit_code_of
from tidings.cli.serve import in_words
from tidings.config import Config, DynamoDb
from tidings.gateway.http.listener import listen
from tidings.model.setup_error import SetupError

Announce = Callable[[str], None]


def serve_many(config: Config, announce: Announce, *, has_demo: bool) -> int:
    """Run the processes of a server until a signal to stop; return the exit code.

    On the embedded store, one process owns the store, and the others are fronts. On DynamoDB, all
    processes are alike.

    Raises:
        SetupError: The operator has to change something first.
        OSError: The address is not available.
    """
    import_adapters(config)
    listeners = listen(config.network.host, config.network.port)
    gc.collect()
    gc.freeze()  # what all processes share stays shared
    gc.enable()
    if isinstance(config.store, DynamoDb):
        jobs = _gateways(config, announce, has_demo=has_demo)
    else:
        jobs = _owner_and_fronts(config, announce, has_demo=has_demo)
    return Supervisor(jobs, listeners).run()


def _owner_and_fronts(config: Config, announce: Announce, *, has_demo: bool) -> list[SupervisedJob]:
    def own(supervised: Supervised) -> int:
        told = announce if supervised.is_first else _tell_nobody
        serving = server.serve(config, told, has_demo=has_demo, supervised=supervised)
        return _run(config, serving)

    def hold(name: str, supervised: Supervised) -> int:
        return _run(config, run_front(config, name, supervised))

    names = [f"front-{number}" for number in range(1, config.process.processes + 1)]
    fronts = [SupervisedJob(name, partial(hold, name), is_front=True) for name in names]
    return [SupervisedJob("owner", own), *fronts]


def _gateways(config: Config, announce: Announce, *, has_demo: bool) -> list[SupervisedJob]:
    if has_demo:
        raise SetupError("--demo is for one process: leave --processes out")

    def serve(number: int, supervised: Supervised) -> int:
        told = announce if supervised.is_first else _tell_nobody
        own = with_metrics_of_its_own(config, number)
        return _run(own, server.serve(own, told, supervised=supervised))

    numbers = range(config.process.processes)
    return [SupervisedJob(f"gateway-{number + 1}", partial(serve, number)) for number in numbers]


def with_metrics_of_its_own(config: Config, number: int) -> Config:
    """Return the settings of one of several processes, which shows its metrics on a port of its
    own: the first on the port in the settings, the next one on the port after it."""
    if config.process.metrics is None:
        return config
    host, port = config.process.metrics
    own_port = port + number if port else 0  # the system chooses a free one for each
    process = msgspec.structs.replace(config.process, metrics=(host, own_port))
    return msgspec.structs.replace(config, process=process)


def _tell_nobody(_url: str) -> None:
    """Print nothing, because another process has."""


def _run(config: Config, work: Coroutine[Any, Any, int]) -> int:
    def run() -> int:
        try:
            return uvloop.run(work)
        except OSError as error:
            raise SetupError(in_words(error, config)) from error

    return exit_code_of(run)
