# SPDX-License-Identifier: Apache-2.0
"""A proxy that nobody named is noticed, and said once."""

import logging
from ipaddress import ip_network

import pytest

from tidings.actions.rate_limits import RateLimits
from tidings.api.access import Access, UnnamedProxyWarning
from tidings.limiters import InProcessBuckets
from tidings.model.addresses import Networks


@pytest.mark.attack("S11")
def test_a_proxy_that_nobody_named_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    proxy = UnnamedProxyWarning()
    with caplog.at_level(logging.WARNING, "tidings.serving"):
        proxy.look([])
        assert caplog.records == []
        for _ in range(3):
            proxy.look(["192.0.2.1"])
    [told] = caplog.records
    assert "TIDINGS_TRUSTED_PROXIES" in told.message


@pytest.mark.parametrize(
    ("peer", "header", "trusted", "is_told"),
    [
        ("127.0.0.1", b"x-forwarded-for", (), True),
        ("127.0.0.1", b"x-forwarded-for", (ip_network("127.0.0.1"),), False),
        ("127.0.0.1", b"accept", (), False),
        ("192.0.2.7", b"x-forwarded-for", (), False),
    ],
)
async def test_a_forwarded_request_from_this_machine_is_noticed(
    caplog: pytest.LogCaptureFixture, peer: str, header: bytes, trusted: Networks, is_told: bool
) -> None:
    buckets = InProcessBuckets()
    access = Access(RateLimits(buckets, buckets), trusted)
    scope = {"client": (peer, 1), "headers": [(header, b"192.0.2.1")], "state": {}}
    await access.count_arrival(scope, None)
    assert ("TIDINGS_TRUSTED_PROXIES" in caplog.text) == is_told
