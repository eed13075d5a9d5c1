# SPDX-License-Identifier: Apache-2.0
"""Whose address a request came from, where it is not a proxy's, and as what it is counted."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = tuple[Network, ...]

HOUSEHOLD_BITS: Final = 64
"""An IPv6 client has at least this much of an address to itself, and any number of the rest."""
SITE_BITS: Final = 48
"""What many providers give to whoever asks: 65,536 networks of the size above."""
HOPS_MAX: Final = 32
"""Proxies that are looked past; nobody has as many."""


def counted_address(peer: str | None, forwarded: Sequence[str], trusted: Networks) -> str | None:
    """As whom a client is counted: its address, of IPv6 the network it is in.

    Args:
        peer: Who is connected.
        forwarded: What each `X-Forwarded-For` header says, in their order.
        trusted: Proxies whose word counts: of what they forward, the last address that is none of
            theirs is the client's. What stands before it, anybody may have written.

    Returns:
        None if it is not to be counted: this machine itself, or not known.
    """
    client = _address(peer) if peer else None
    if client is None:
        return None
    if trusted and forwarded and _is_in(client, trusted):
        client = _behind(client, forwarded, trusted)
    return _counted(client)


@lru_cache(maxsize=4_096)
def site_of(counted: str) -> str | None:
    """The larger network that somebody who is counted is in; None for IPv4, where it is others'."""
    if ":" not in counted:
        return None
    return str(ipaddress.ip_network(counted).supernet(new_prefix=SITE_BITS))


def is_trusted(peer: str | None, trusted: Networks) -> bool:
    """Whether who is connected is one of these proxies."""
    address = _address(peer) if peer else None
    return address is not None and _is_in(address, trusted)


def _behind(proxy: Address, forwarded: Sequence[str], trusted: Networks) -> Address:
    client = proxy
    hops = ",".join(forwarded).rsplit(",", HOPS_MAX)
    for hop in reversed(hops):
        address = _address(_without_port(hop.strip()))
        if address is None:
            break  # not an address: all that is known is who sent it
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
    """Some proxies name the port, too: `192.0.2.1:80`, `[2001:db8::1]:80`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
