# SPDX-License-Identifier: Apache-2.0
"""Fixtures that any suite may ask for."""

import gc
import logging
import os
import sys
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.attacks.report import note_attacks, tell_attacks
from tests.support.log_lines import Undeclared, json_lines
from tests.support.quick import keep_quick
from tests.support.ready_credentials import give_credentials_at_once
from tests.support.ready_libraries import load_libraries_once
from tests.support.ready_schema import copy_schema_into_new_stores
from tests.support.service_host import host_services, stop_services
from tests.support.services import (
    aws_endpoint,
    dynamodb_endpoint,
    kafka_address,
    own_dynamodb,
    own_kafka,
    own_redis,
    redis_url,
    s3proxy_endpoint,
    shared_dynamodb,
    sqs_endpoint,
    tell_what_was_missing,
)

__all__ = [
    "aws_endpoint",
    "dynamodb_endpoint",
    "json_lines",
    "kafka_address",
    "own_dynamodb",
    "own_kafka",
    "own_redis",
    "redis_url",
    "s3proxy_endpoint",
    "shared_dynamodb",
    "sqs_endpoint",
]


# An example may take as long as a busy machine needs for it.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
copy_schema_into_new_stores()
give_credentials_at_once()
load_libraries_once()
# A command that runs inside of a test must not lower the priority of all tests after it.
os.nice = lambda _: 0
if find_spec("sniffio") is None:
    # For every request, httpx tries to import this package, which is slower if it is not there.
    sys.modules["sniffio"] = None  # type: ignore[assignment]

BROWSER: Final = "tests/browser/"
GARBAGE: Final = 20_000, 20, 20
"""Tests make little garbage, and there is memory: it is collected less often than usual."""

_undeclared = Undeclared()


@pytest.fixture(autouse=True)
def declared_lines() -> Generator[None]:
    """Fail a test in whose process the server logs an action or a field that is not declared."""
    logging.getLogger("tidings").addHandler(_undeclared)
    yield
    found, _undeclared.found = _undeclared.found, []
    assert not found, "see src/tidings/logs/declared.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="only tests that start no service and no process"
    )
    parser.addoption(
        "--in-process", action="store_true", help="the same and the tests of all verbs in-process"
    )


class FilesAndBrowser(LoadFileScheduling):  # type: ignore[misc]
    """Gives each file to one worker, and all files of the browser to the same one.

    A worker that has a browser also starts its driver and two servers.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return BROWSER if file.startswith(BROWSER) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FilesAndBrowser(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    host_services(node.config, node.workerinput)


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_services(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Nothing that a collection makes is garbage, and looking for it takes a fifth of the time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*GARBAGE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    with_verbs = config.getoption("--in-process")
    if with_verbs or config.getoption("--quick"):
        keep_quick(config, items, with_verbs=with_verbs)
    note_attacks(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tell_attacks(terminalreporter)
    tell_what_was_missing(terminalreporter)
