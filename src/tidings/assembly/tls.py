# SPDX-License-Identifier: Apache-2.0
"""Shows clients the certificate from the settings, and reads it again on SIGHUP."""

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable

from tidings.certificates import CertificateFiles, make_context, read_chain
from tidings.config.settings import Network
from tidings.model.setup_error import SetupError

log = logging.getLogger("tidings.tls")


class PortCertificate:
    """The certificate that this process shows to clients.

    A connection keeps the certificate with which it began.
    """

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files.

        Raises:
            SetupError: The files cannot be used.
        """
        self._files = files
        self._context = make_context(files)
        self.pem = read_chain(files)[0]
        """The certificate of this server, without those of authorities."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings for a new connection."""
        return self._context

    def reload_on_signal(self, on_change: Callable[[], None]) -> None:
        """Make SIGHUP read the files again; `on_change` is called after that."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload, on_change)

    def _reload(self, on_change: Callable[[], None]) -> None:
        """Read the files again. If they cannot be used, the certificate stays as it is."""
        try:
            context, chain = make_context(self._files), read_chain(self._files)
        except SetupError as error:
            extra = {"action": "certificate_refused", "error": str(error)}
            log.error("the new certificate cannot be used, the old one stays", extra=extra)
            return
        self._context, self.pem = context, chain[0]
        on_change()
        extra = {"action": "certificate_loaded", "file": str(self._files.chain)}
        log.info("the certificate was read again", extra=extra)


def port_certificate(network: Network) -> PortCertificate | None:
    """Return the certificate of the port; None if the port speaks plain HTTP.

    Raises:
        SetupError: The files cannot be used.
    """
    if network.tls_cert is None:
        return None
    # Whoever renews the certificate while the server starts must not end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return PortCertificate(CertificateFiles(network.tls_cert, network.tls_key))
