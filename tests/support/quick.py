# SPDX-License-Identifier: Apache-2.0
"""Selects the tests that start no service and no other process, for `make quick` and `make
quick-coverage`."""

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
"""Folders of these tests; the tests in other folders start a server process."""
VERBS: Final = tuple(
    f"tests/integration/test_{name}"
    for name in (
        "expiry",
        "history",
        "inbox_repeats",
        "job_parts",
        "own_messages",
        "races",
        "rest_",
        "unread",
    )
)
"""Tests that call every verb in-process. They are too slow for `make quick`."""
ENGINES: Final = frozenset(
    {"aws_endpoint", "dynamodb", "kafka", "redis", "s3proxy_endpoint", "sqs"}
)
FIXTURES: Final = frozenset(
    {
        "aws_endpoint",
        "dynamodb_endpoint",
        "kafka_address",
        "own_dynamodb",
        "own_kafka",
        "own_redis",
        "redis_url",
        "s3proxy_endpoint",
        "server",
        "shared_dynamodb",
        "sqs_endpoint",
    }
)


def keep_quick(config: pytest.Config, items: list[pytest.Item], *, with_verbs: bool) -> None:
    """Deselect tests that need a service or process and, unless `with_verbs`, those of the
    verbs."""
    places = FOLDERS + VERBS if with_verbs else FOLDERS
    quick = [item for item in items if _is_quick(item, config.rootpath, places)]
    left_out = set(items).difference(quick)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = quick


def _is_quick(item: pytest.Item, root: Path, places: tuple[str, ...]) -> bool:
    path = item.path.relative_to(root).as_posix()
    fixtures: frozenset[str] = frozenset(getattr(item, "fixturenames", ()))
    callspec = getattr(item, "callspec", None)
    engines = set() if callspec is None else set(callspec.id.split("-"))
    return (
        path.startswith(places)
        and item.get_closest_marker("slow") is None
        and not fixtures & FIXTURES
        and not engines & ENGINES
    )
