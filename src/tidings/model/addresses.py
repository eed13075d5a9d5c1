# SPDX-License-Identifier: Apache-2.0
"""Finds a client's address behind trusted proxies, and the network to which rate limits apply."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = tuple[Network, ...]

HOUSEHOLD_BITS: Final = 64
"""Length of the IPv6 prefix that is treated as one client, because a client can use any address in
it."""
SITE_BITS: Final = 48
"""Bits of the IPv6 prefix that many providers give to each customer: 65,536 networks of /64."""
HOPS_MAX: Final = 32
"""Maximum number of forwarded addresses that are examined; no deployment has as many proxies."""


def counted_address(peer: str | None, forwarded: Sequence[str], trusted: Networks) -> str | None:
    """Return the IPv4 address or IPv6 network to which a client's rate limits apply.

    Args:
        peer: Address of the other end of the connection.
        forwarded: Values of the `X-Forwarded-For` headers, in order.
        trusted: Networks of trusted proxies. The client is the last forwarded address that is not
            in them; anybody may have written the addresses before it.

    Returns:
        None if the client is this machine itself, or is unknown.
    """
    client = _address(peer) if peer else None
    if client is None:
        return None
    if trusted and forwarded and _is_in(client, trusted):
        client = _behind(client, forwarded, trusted)
    return _counted(client)


@lru_cache(maxsize=4_096)
def site_of(counted: str) -> str | None:
    """Return the /48 around an IPv6 network; None for IPv4, which has no prefix per customer."""
    if ":" not in counted:
        return None
    return str(ipaddress.ip_network(counted).supernet(new_prefix=SITE_BITS))


def is_trusted(peer: str | None, trusted: Networks) -> bool:
    """Return True if the peer is one of the trusted proxies."""
    address = _address(peer) if peer else None
    return address is not None and _is_in(address, trusted)


def is_loopback(text: str) -> bool:
    """Return True if a text is an address of this machine itself."""
    address = _address(text)
    return address is not None and address.is_loopback


def _behind(proxy: Address, forwarded: Sequence[str], trusted: Networks) -> Address:
    client = proxy
    hops = ",".join(forwarded).rsplit(",", HOPS_MAX)
    for hop in reversed(hops):
        address = _address(_without_port(hop.strip()))
        if address is None:
            break  # not an address: the last known hop is the client
        client = address
        if not _is_in(address, trusted):
            break
    return client


@lru_cache(maxsize=4_096)
def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4_096)
def _counted(address: Address) -> str | None:
    if address.is_loopback:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    household = ipaddress.ip_network((int(address), HOUSEHOLD_BITS), strict=False)
    return str(household)


def _is_in(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _without_port(hop: str) -> str:
    """Strip the port that some proxies add: `192.0.2.1:80`, `[2001:db8::1]:80`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
