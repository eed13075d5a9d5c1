# SPDX-License-Identifier: Apache-2.0
"""Lets DynamoDB stores of this process wait for answers as long as a busy machine needs."""

from contextlib import ExitStack
from inspect import unwrap
from typing import Final
from unittest.mock import patch

from tidings.aws import transport
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.identity import sessions, users

REQUEST_SECONDS_MAX: Final = 3_600.0


def patience(seconds: float = REQUEST_SECONDS_MAX) -> ExitStack:
    """Give up requests to the store only after so many seconds, until the result is closed."""
    patches = ExitStack()
    for module in (retrying, sessions, users):
        patches.enter_context(patch.object(module, "DEADLINE_SECONDS", seconds))
    defaults = unwrap(transport.open_transport).__kwdefaults__
    patches.enter_context(patch.dict(defaults, answer_seconds_max=seconds))
    return patches
