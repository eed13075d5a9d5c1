# SPDX-License-Identifier: Apache-2.0
"""A proxy that nobody named is noticed, and said once."""

import logging

import pytest

from tidings.actions.unnamed_proxy import UnnamedProxy


@pytest.mark.attack("S11")
def test_a_proxy_that_nobody_named_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    proxy = UnnamedProxy()
    with caplog.at_level(logging.WARNING, "tidings.serving"):
        proxy.look([])
        assert caplog.records == []
        for _ in range(3):
            proxy.look(["192.0.2.1"])
    [told] = caplog.records
    assert "TIDINGS_TRUSTED_PROXIES" in told.message
