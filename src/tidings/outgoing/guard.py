# SPDX-License-Identifier: Apache-2.0
"""Decides which addresses the server may connect to, if somebody else has chosen the address.

A tenant that could make the server connect anywhere would reach what only the server can reach:
the services of the operator, the server itself, and the metadata service of a cloud. The check is
made for each connection, when the address is known and before anything is sent. A name that
resolves to another address the next time is therefore checked again.
"""

import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Final

from tidings.model.addresses import Networks

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a gateway translates to the IPv4 address in their last four bytes."""

_NOT_PUBLIC: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16",  # services of Azure for the machine that asks
            "192.0.0.0/24",  # protocols; 192.0.0.192 is a metadata service of Oracle
            "192.88.99.0/24",  # gateways of 6to4, which are not used any more
            "3fff::/20",  # documentation
            "fec0::/10",  # addresses of a site, which are not used any more
        ),
    )
)
"""Networks that are not public either, although Python's `is_global` says so in some versions."""


class AddressRefused(OSError):
    """The server may not connect to this address."""

    def __init__(self, host: str) -> None:
        super().__init__(errno.EACCES, f"{host} is not a public address")


def may_connect(host: str, allowed: Networks, *, is_secure: bool) -> bool:
    """Return True if the server may connect to an address.

    It may connect to the networks that the operator allows and, with TLS, to all public addresses.
    """
    address = _meant(ipaddress.ip_address(host.partition("%")[0]))
    if any(address in network for network in allowed):
        return True
    return is_secure and _is_public(address)


def _is_public(address: _Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC)


def _meant(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address stands for; otherwise the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def guarded_socket(allowed: Networks, *, is_secure: bool) -> Callable[[Any], socket.socket]:
    """Return a function that makes the socket for a connection to a resolved address.

    The function raises `AddressRefused` if the server may not connect to it.
    """

    def make(address_info: Any) -> socket.socket:  # noqa: ANN401 - as `getaddrinfo` returns it
        family, kind, protocol, _, address = address_info
        if not may_connect(address[0], allowed, is_secure=is_secure):
            raise AddressRefused(address[0])
        return socket.socket(family, kind, protocol)

    return make
