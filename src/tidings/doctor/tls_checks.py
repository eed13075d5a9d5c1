# SPDX-License-Identifier: Apache-2.0
"""Checks of the certificate with which the port speaks TLS."""

import ipaddress
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import urlsplit

from cryptography import x509

from tidings.certificates import CertificateFiles, make_context, read_chain
from tidings.config import Config
from tidings.doctor.findings import Finding, Subject, fault, fine, warning
from tidings.doctor.network_checks import judge_certificate


def has_certificate(config: Config) -> bool:
    """Return whether the port speaks TLS."""
    return config.network.tls_cert is not None


async def look_at_port_certificate(subject: Subject) -> AsyncIterator[Finding]:
    """Check the validity of the certificate, its key and its names, and whether it is in use."""
    network = subject.config.network
    assert network.tls_cert is not None, "the check applies only if there is a certificate"
    files = CertificateFiles(network.tls_cert, network.tls_key)
    make_context(files)  # a key that does not fit ends the check
    now = datetime.fromtimestamp(subject.clock.now() / 1_000, UTC)
    chain = [x509.load_pem_x509_certificate(pem.encode()) for pem in read_chain(files)]
    for place, certificate in enumerate(chain):
        part = "" if place == 0 else f", certificate {place + 1} of the chain"
        yield judge_certificate(f"TIDINGS_TLS_CERT ({files.chain}{part})", certificate, now)
    yield judge_name(chain[0], subject.public_url or network.public_url)
    served = subject.server_certificate
    if served is not None and x509.load_pem_x509_certificate(served.encode()) != chain[0]:
        yield warning(
            f"the server still shows the certificate that was in {files.chain} before",
            "send SIGHUP to the process: it reads the file again, and connections stay open",
        )


def judge_name(certificate: x509.Certificate, url: str | None) -> Finding:
    """Return a finding about the names in a certificate. Clients must use one of these names."""
    names = _names(certificate)
    told = f"the certificate is for {', '.join(names) or 'no name'}"
    if url is None:
        return fine(told) if names else fault(told, "get one with the name that clients use")
    host = urlsplit(url).hostname or ""
    if any(_fits(name, host) for name in names):
        return fine(told)
    return fault(f"{told}, and clients use {host}", "get one with the name that clients use")


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _fits(name: str, host: str) -> bool:
    """Return True if a name in a certificate stands for a host (RFC 6125, 6.4)."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        first, _, rest = name.lower().partition(".")
        return name.lower() == host or (first == "*" and host.partition(".")[2] == rest)
