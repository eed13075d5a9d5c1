# SPDX-License-Identifier: Apache-2.0
"""Certificates for push services of tests, and what a provider of push needs to trust them."""

import ssl
from ipaddress import ip_network
from pathlib import Path

from tests.support.certificates import Authority

LOOPBACK = (ip_network("127.0.0.0/8"),)


class ServiceTls:
    """The TLS settings of both sides."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "push_tls")
        self.authority = authority.certificate
        self._identity = authority.issue("service").both
        self.server = self.another_server()
        self.client = ssl.create_default_context(cafile=str(authority.certificate))

    def another_server(self) -> ssl.SSLContext:
        """Return the settings of a further server: each may offer another protocol."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.load_cert_chain(self._identity)
        return made
