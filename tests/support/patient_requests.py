# SPDX-License-Identifier: Apache-2.0
"""Lets DynamoDB stores in a package of tests wait for answers as long as a busy machine needs."""

from collections.abc import Iterator

import pytest

from tests.support.patience import patience


@pytest.fixture(autouse=True, scope="package")
def patient_requests() -> Iterator[None]:
    """Requests to the store are not given up, on a busy machine or when a run skips a minute.

    What is given up fails in one run of an example and not in the next one.
    """
    with patience():
        yield
