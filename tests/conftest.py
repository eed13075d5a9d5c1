# SPDX-License-Identifier: Apache-2.0
"""Fixtures that any suite may ask for."""

import pytest

from tests.harness.services import (
    dynamodb_endpoint,
    kafka_address,
    own_dynamodb,
    own_kafka,
    own_redis,
    redis_url,
    shared_dynamodb,
    tell_what_was_missing,
)

__all__ = [
    "dynamodb_endpoint",
    "kafka_address",
    "own_dynamodb",
    "own_kafka",
    "own_redis",
    "redis_url",
    "shared_dynamodb",
]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tell_what_was_missing(terminalreporter)
