# SPDX-License-Identifier: Apache-2.0
"""Refusals over HTTP."""

import pytest

from tidings.model import refusals
from tidings.wire.codes import http_status


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (refusals.ChatBusy(), 429),
        (refusals.StoreUnavailable(), 503),
        (refusals.ChatNotFound(), 404),
        (refusals.SendConflict(), 409),
    ],
)
def test_a_refusal_has_the_status_of_its_kind(refusal: refusals.Refusal, status: int) -> None:
    assert http_status(refusal) == status
