# SPDX-License-Identifier: Apache-2.0
"""Lets DynamoDB stores in a package of tests wait for answers as long as a busy machine needs."""

from collections.abc import Iterator
from inspect import unwrap
from typing import Final

import pytest

from tidings.aws import transport
from tidings.stores.dynamodb.client import retrying
from tidings.stores.dynamodb.identity import sessions, users

REQUEST_SECONDS_MAX: Final = 3_600.0


@pytest.fixture(autouse=True, scope="package")
def patient_requests() -> Iterator[None]:
    """Requests to the store are not given up, on a busy machine or when a run skips a minute.

    What is given up fails in one run of an example and not in the next one.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (retrying, sessions, users):
            patch.setattr(module, "DEADLINE_SECONDS", REQUEST_SECONDS_MAX)
        defaults = unwrap(transport.open_transport).__kwdefaults__
        patch.setitem(defaults, "answer_seconds_max", REQUEST_SECONDS_MAX)
        yield
