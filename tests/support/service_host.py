# SPDX-License-Identifier: Apache-2.0
"""Starts the services that all workers of a test run share, in the process that starts the workers.

A worker asks for a service over a Unix socket, and gets its address. The first question starts the
service; it stops when the run ends. In a run without workers, nobody hosts services.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

import pytest

from scripts.services.dynamodb_local import DynamoDBLocal
from scripts.services.elasticmq import ElasticMQ
from scripts.services.kafka_broker import KafkaBroker
from scripts.services.process import ServiceProcess

SHARED: Final[dict[str, Callable[[Path], ServiceProcess]]] = {
    DynamoDBLocal.name: partial(DynamoDBLocal, durable=True),
    ElasticMQ.name: ElasticMQ,
    KafkaBroker.name: KafkaBroker,
}
"""Services in Java, which are slow at first; of the others, each worker has its own."""

_WORKER_INPUT: Final = "service_host"
_HOST: Final = pytest.StashKey["ServiceHost"]()


class ServiceHost:
    """The shared services that were asked for, and the threads that answer the workers."""

    def __init__(self) -> None:
        self._listener = Listener(family="AF_UNIX")
        self._started: dict[str, ServiceProcess] = {}
        self._starting = defaultdict[str, Lock](Lock)
        Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """The socket where workers ask."""
        return str(self._listener.address)

    def stop(self) -> None:
        """Stop all services."""
        self._listener.close()
        for service in self._started.values():
            service.stop()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                Thread(target=self._answer, args=[self._listener.accept()], daemon=True).start()

    def _answer(self, worker: Connection) -> None:
        with worker:
            name, folder = worker.recv()
            try:
                worker.send(self._address_of(name, Path(folder)))
            except Exception as error:
                worker.send(error)

    def _address_of(self, name: str, folder: Path) -> str:
        with self._starting[name]:
            if name not in self._started:
                service = SHARED[name](folder / name.lower().replace(" ", "-"))
                service.start()
                self._started[name] = service
            return self._started[name].address


def host_services(config: pytest.Config, worker_input: dict[str, Any]) -> None:
    """Tell a worker where to ask for services."""
    if _HOST not in config.stash:
        config.stash[_HOST] = ServiceHost()
    worker_input[_WORKER_INPUT] = config.stash[_HOST].address


def stop_services(config: pytest.Config) -> None:
    """Stop all services that this process hosts."""
    if (host := config.stash.get(_HOST, None)) is not None:
        host.stop()


def ask_for_service(config: pytest.Config, name: str, folder: Path) -> str | None:
    """Return the address of a shared service, which is started in a folder if it does not run yet;
    None if nobody hosts it.

    Raises:
        Unavailable: The service is not available.
    """
    address = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if address is None or name not in SHARED:
        return None
    with Client(address) as host:
        host.send((name, str(folder)))
        answer = host.recv()
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, str)
    return answer
