# SPDX-License-Identifier: Apache-2.0
"""The services of `make services`: one of each, which run until they are stopped."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

from scripts.services.dynamodb_local import DynamoDBLocal
from scripts.services.elasticmq import ElasticMQ
from scripts.services.kafka_broker import KafkaBroker
from scripts.services.obtaining import FOLDER
from scripts.services.process import STOP_SECONDS_MAX, ServiceProcess
from scripts.services.redis_server import RedisServer

# These are not the usual ports of the services, because your own services may use those.
DYNAMODB_PORT: Final = 18_000
KAFKA_PORT: Final = 19_092
KAFKA_CONTROLLER_PORT: Final = 19_093
REDIS_PORT: Final = 16_379
ELASTICMQ_PORT: Final = 19_324

_RUNNING: Final = FOLDER / "running"
_POLL_SECONDS: Final = 0.02


def services() -> list[ServiceProcess]:
    """Return one service of each kind, not started yet; it will outlive this process."""
    return [
        DynamoDBLocal(_RUNNING / "dynamodb", DYNAMODB_PORT, guarded=False),
        KafkaBroker(
            _RUNNING / "kafka",
            KAFKA_PORT,
            controller_port=KAFKA_CONTROLLER_PORT,
            guarded=False,
        ),
        RedisServer(_RUNNING / "redis", REDIS_PORT, guarded=False),
        ElasticMQ(_RUNNING / "elasticmq", ELASTICMQ_PORT, guarded=False),
    ]


def start(service: ServiceProcess) -> None:
    """Start the service if it does not run yet, and store its process id."""
    if is_up(service):
        return
    service.start()
    _pid_file(service).write_text(str(service.pid))


def stop(service: ServiceProcess) -> bool:
    """Stop the service if `start` started it; return whether it was running."""
    pid = _pid_of(service)
    _pid_file(service).unlink(missing_ok=True)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS_MAX
    while _is_ours(pid, service):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return True


def is_up(service: ServiceProcess) -> bool:
    """Return whether `start` started the service, and it answers."""
    return _pid_of(service) is not None and service.answers()


def _pid_of(service: ServiceProcess) -> int | None:
    try:
        pid = int(_pid_file(service).read_text())
    except (OSError, ValueError):
        return None
    return pid if _is_ours(pid, service) else None


def _is_ours(pid: int, service: ServiceProcess) -> bool:
    """Return whether the process is our service. Process ids are reused, so its working folder is
    checked."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").readlink() == service.folder
    return False


def _pid_file(service: ServiceProcess) -> Path:
    return service.folder / "pid"
