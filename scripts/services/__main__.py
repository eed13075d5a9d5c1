# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.services obtain | start | stop`"""

import argparse
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from scripts.services import (
    chromium,
    dynamodb_local,
    elasticmq,
    kafka_broker,
    node_tools,
    promtool,
    proxies,
    redis_server,
    running,
)
from scripts.services.obtaining import Unavailable, must_be_had
from scripts.services.process import ServiceDied

Obtain = Callable[[], Path]

_OBTAIN: Final[tuple[dict[str, Obtain], ...]] = (
    {  # with npm
        dynamodb_local.DynamoDBLocal.name: dynamodb_local.obtain,
        node_tools.NAME: node_tools.obtain,
        node_tools.REACT_NAME: partial(node_tools.obtain, node_tools.REACT),
    },
    {  # with Maven
        kafka_broker.KafkaBroker.name: kafka_broker.obtain,
        elasticmq.ElasticMQ.name: elasticmq.obtain,
    },
    {  # with apt
        redis_server.RedisServer.name: redis_server.obtain,
        chromium.NAME: chromium.obtain_headless,
        promtool.NAME: promtool.obtain,
        **{one.name: one.obtain for one in proxies.PROXIES},
    },
)
"""How to obtain each service, by the tool that downloads it."""


def main() -> int:
    """Run the verb of the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="services", description=__doc__)
    parser.add_argument("verb", choices=["obtain", "start", "stop"])
    match parser.parse_args().verb:
        case "obtain":
            return _obtain()
        case "start":
            return _start()
        case _:
            return _stop()


def _obtain() -> int:
    """Obtain the services that the tests need, with all tools at the same time; return the exit
    code.

    A service that is not available is an error only in continuous integration. A service that is
    available but does not start is always an error.
    """
    with ThreadPoolExecutor(len(_OBTAIN)) as threads:
        errors = [error for found in threads.map(_obtain_each, _OBTAIN) for error in found]
    died = any(isinstance(error, ServiceDied) for error in errors)
    return 1 if died or (errors and must_be_had()) else 0


def _obtain_each(services: Mapping[str, Obtain]) -> list[Unavailable | ServiceDied]:
    """Obtain these services one after the other; print and return what was in the way."""
    errors: list[Unavailable | ServiceDied] = []
    for name, obtain in services.items():
        try:
            obtain()
        except Unavailable as error:
            errors.append(error)
            print(f"NOT AVAILABLE: {name}: {error}. Tests that need it will not run.")
        except ServiceDied as error:
            errors.append(error)
            print(error, file=sys.stderr)
    return errors


def _start() -> int:
    for service in running.services():
        try:
            running.start(service)
        except Unavailable as error:
            print(f"{service.name}: {error}", file=sys.stderr)
            return 1
        except ServiceDied as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{service.name:<16}{service.address}", flush=True)
    return 0


def _stop() -> int:
    for service in running.services():
        print(f"{service.name:<16}{'stopped' if running.stop(service) else 'was not running'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
