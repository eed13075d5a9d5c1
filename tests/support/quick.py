# SPDX-License-Identifier: Apache-2.0
"""`make quick`: the tests that start no service, no server and no other process."""

from pathlib import Path
from typing import Final

import pytest

FOLDERS: Final = (
    "tests/contract",
    "tests/model",
    "tests/tidy",
    "tests/unit",
    "clients/python/tests",
)
"""The other folders test a server that runs as a process of its own."""
ENGINES: Final = frozenset({"dynamodb", "kafka", "redis", "sqs"})
FIXTURES: Final = frozenset(
    {
        "deployment",
        "dynamodb_endpoint",
        "kafka_address",
        "own_dynamodb",
        "own_kafka",
        "own_redis",
        "own_sqs",
        "redis_url",
        "server",
        "shared_dynamodb",
        "sqs_endpoint",
    }
)


def keep_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect everything that needs more than this process."""
    quick = [item for item in items if _is_quick(item, config.rootpath)]
    left_out = set(items).difference(quick)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = quick


def _is_quick(item: pytest.Item, root: Path) -> bool:
    folder = item.path.relative_to(root).as_posix()
    fixtures: frozenset[str] = frozenset(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    engines = set() if callspec is None else set(callspec.id.split("-"))
    return (
        folder.startswith(FOLDERS)
        and item.get_closest_marker("slow") is None
        and not fixtures & FIXTURES
        and not engines & ENGINES
    )
