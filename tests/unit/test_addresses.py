# SPDX-License-Identifier: Apache-2.0
"""Whose address counts: the peer's, or the last one that no trusted proxy added."""

import ipaddress
from collections.abc import Sequence

import pytest

from tidings.model.addresses import counted_address, is_loopback, is_trusted, site_of

PROXIES = tuple(ipaddress.ip_network(text) for text in ("127.0.0.1", "10.0.0.0/8", "2001:db8::/48"))


@pytest.mark.attack("D16")
@pytest.mark.parametrize(
    ("peer", "forwarded", "counted"),
    [
        ("198.51.100.7", [], "198.51.100.7"),
        # Nobody else's word counts.
        ("198.51.100.7", ["203.0.113.9"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        # What stands before the last one that is not a proxy's, anybody may have written.
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.9, 10.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9", "10.2.3.4"], "203.0.113.9"),
        # All proxies: the first of them.
        ("10.0.0.1", ["10.9.9.9, 10.2.3.4"], "10.9.9.9"),
        # Nonsense: all that is known is who sent it.
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9,, 10.2.3.4"], "10.2.3.4"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2a00:1::5]:4711"], "2a00:1::/64"),
        ("10.0.0.1", [",".join(["10.1.1.1"] * 5_000)], "10.1.1.1"),
        # IPv6: one household, one count; and the old addresses in new clothes.
        ("2a00:1:2:3:aaaa::1", [], "2a00:1:2:3::/64"),
        ("2a00:1:2:3:bbbb::2%eth0", [], "2a00:1:2:3::/64"),
        ("::ffff:198.51.100.7", [], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("2001:db8::1", ["203.0.113.9"], "203.0.113.9"),
        # This machine itself.
        ("127.0.0.1", [], None),
        ("::1", [], None),
        ("::ffff:127.0.0.1", [], None),
        ("127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("127.0.0.2", ["203.0.113.9"], None),
        (None, ["203.0.113.9"], None),
        ("", [], None),
    ],
)
def test_as_whom_a_client_is_counted(
    peer: str | None, forwarded: Sequence[str], counted: str | None
) -> None:
    assert counted_address(peer, forwarded, PROXIES) == counted


@pytest.mark.attack("D16")
def test_without_proxies_nobody_is_believed() -> None:
    assert counted_address("10.0.0.1", ["203.0.113.9"], ()) == "10.0.0.1"
    assert counted_address("127.0.0.1", ["203.0.113.9"], ()) is None


def test_who_is_trusted() -> None:
    assert is_trusted("10.1.2.3", PROXIES)
    assert not is_trusted("11.1.2.3", PROXIES)
    assert not is_trusted(None, PROXIES)
    assert not is_trusted("10.1.2.3", ())


@pytest.mark.attack("S18")
def test_the_larger_network_that_an_address_is_in() -> None:
    assert site_of("2a00:1:2:3::/64") == site_of("2a00:1:2:ffff::/64") == "2a00:1:2::/48"
    assert site_of("2a00:1:3::/64") == "2a00:1:3::/48"
    assert site_of("198.51.100.7") is None


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:192.0.2.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_which_addresses_are_this_machine(text: str, is_own: bool) -> None:
    assert is_loopback(text) == is_own
