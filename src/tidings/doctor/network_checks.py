# SPDX-License-Identifier: Apache-2.0
"""Checks of the ports, the running server, and the certificates that connections depend on."""

import asyncio
import errno
import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from tidings.assembly.jobs import kafka_servers
from tidings.certificates import CertificateFiles, read_chain, trust_only
from tidings.config import Config, DynamoDb, Webhook
from tidings.config.settings import Network
from tidings.doctor.findings import Finding, Subject, fault, fine, unknown, warning
from tidings.doctor.host_checks import server_pid
from tidings.doctor.reaching import CONNECT_SECONDS_MAX, address_of

CERTIFICATE_DAYS_MIN: Final = 21
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_STUCK: Final = (
    "send SIGUSR1 to the process twice and read its log: "
    "docs/operations/failure.md#the-server-is-slow-or-stuck"
)


async def look_at_server(subject: Subject) -> AsyncIterator[Finding]:
    """Check that the server is ready; or, if none runs, that a server could use its ports."""
    config = subject.config
    network = config.network
    host, port = network.host, network.port
    url = subject.server or _own_url(network)
    state = None
    if subject.server or port:
        state = await asyncio.to_thread(_ready, url, _trust(subject))
    if state is not None:
        yield state
    elif server_pid(config.data) is not None:
        yield warning(f"a process has {config.data} open, but does not serve yet", _STUCK)
    else:
        yield _can_listen(host, port, "TIDINGS_PORT")
        if config.process.metrics is not None:
            yield _can_listen(*config.process.metrics, "TIDINGS_METRICS")
    if subject.public_url is not None:
        through = await asyncio.to_thread(_ready, subject.public_url)
        yield through or fault(
            f"{subject.public_url} cannot be reached",
            "look at the proxy, its port and the DNS name: docs/how-to/run-in-production.md",
        )


def _own_url(network: Network) -> str:
    host = _EVERYWHERE.get(network.host, network.host)
    scheme = "http" if network.tls_cert is None else "https"
    return f"{scheme}://{_bracketed(host)}:{network.port}"


def _trust(subject: Subject) -> ssl.SSLContext | None:
    """Return the TLS settings for requests to the server on this machine, whose certificate is
    known and need not have the name of this machine."""
    certificate, file = subject.server_certificate, subject.config.network.tls_cert
    if certificate is None and file is not None:
        certificate = read_chain(CertificateFiles(file))[0]
    return None if certificate is None else trust_only(certificate)


def _ready(url: str, trust: ssl.SSLContext | None = None) -> Finding | None:
    """Ask a server whether it is ready; return None if nothing listens there."""
    asked = f"{url.rstrip('/')}/readyz"
    handlers = [] if trust is None else [urllib.request.HTTPSHandler(context=trust)]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
    try:
        with opener.open(asked, timeout=CONNECT_SECONDS_MAX) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError | socket.gaierror):
            return None
        return fault(f"{url} does not answer: {error.reason}", _STUCK)
    except (OSError, http.client.HTTPException) as error:
        return fault(f"{url} does not answer: {error}", _STUCK)
    return _judge(url, status, body)


def _judge(url: str, status: int, body: bytes) -> Finding:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if status == 200 and isinstance(told, dict) and told.get("status") == "ready":
        return fine(f"the server at {url} is ready")
    if status == 503 and isinstance(told, dict) and "detail" in told:
        cure = "the log says more: docs/operations/failure.md lists what it may say"
        return fault(f"the server at {url} is not ready: {told['detail']}", cure)
    return fault(
        f"at {url} another program answers ({status})",
        "end that program, or give the server another port (TIDINGS_PORT)",
    )


def _can_listen(host: str, port: int, setting: str) -> Finding:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        cure = {
            errno.EADDRINUSE: f"`ss -ltnp` shows the program; end it, or change {setting}",
            errno.EACCES: f"use a port from 1024 in {setting}, and a proxy in front of it",
        }.get(error.errno or 0, f"name an address of this machine in {setting}")
        return fault(f"a server cannot listen on {host}:{port}: {error.strerror}", cure)
    return fine(f"no server runs on this data folder, and {host}:{port} is free")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def look_at_certificates(subject: Subject) -> AsyncIterator[Finding]:
    """Check that certificates are trusted, and how long they are still valid."""
    now = datetime.fromtimestamp(subject.clock.now() / 1_000, UTC)
    found: list[Finding] = []
    for setting, path in _files(subject.config):
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
        found += [judge_certificate(f"{setting} ({path})", each, now) for each in certificates]
    for name, (host, port), context in _encrypted(subject):
        found.append(await _of_peer(name, host, port, context, now))
    for finding in found:
        yield finding
    if not found:
        yield fine("no connection of this process depends on a certificate")


def _files(config: Config) -> Iterator[tuple[str, Path]]:
    if config.cluster is None:
        return
    kafka, redis = config.cluster.kafka, config.cluster.redis
    if kafka.tls is not None:
        if kafka.tls.ca is not None:
            yield "TIDINGS_KAFKA_CA", kafka.tls.ca
        if kafka.tls.certificate is not None:
            yield "TIDINGS_KAFKA_CERTIFICATE", kafka.tls.certificate
    if redis.ca is not None:
        yield "TIDINGS_REDIS_CA", redis.ca


def _encrypted(subject: Subject) -> Iterator[tuple[str, tuple[str, int], ssl.SSLContext]]:
    """Yield name, address and trust of every service that is reached through TLS."""
    config = subject.config
    urls = {
        "the public URL": subject.public_url,
        "DynamoDB": config.store.endpoint if isinstance(config.store, DynamoDb) else None,
        "TIDINGS_PUSH_URL": config.push.url if isinstance(config.push, Webhook) else None,
        "TIDINGS_SMS_URL": config.sms.url if isinstance(config.sms, Webhook) else None,
    }
    for name, url in urls.items():
        if url is not None and url.startswith("https://"):
            yield name, address_of(url), ssl.create_default_context()
    if config.cluster is None:
        return
    kafka, redis = config.cluster.kafka, config.cluster.redis
    if redis.url.startswith("rediss://"):
        yield "Redis", address_of(redis.url), ssl.create_default_context(cafile=redis.ca)
    if (trust := kafka_servers(kafka).tls) is not None:
        for server in kafka.bootstrap.split(","):
            yield "Kafka", address_of(server), trust


async def _of_peer(
    name: str, host: str, port: int, trust: ssl.SSLContext, now: datetime
) -> Finding:
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port, ssl=trust)
    except ssl.SSLCertVerificationError as error:
        return fault(
            f"the certificate of {name} at {host}:{port} is refused: {error.verify_message}",
            "renew it, or name the authority that signed it",
        )
    except OSError as error:
        return unknown(f"the certificate of {name} at {host}:{port} was not examined: {error}")
    encrypted: ssl.SSLObject = writer.get_extra_info("ssl_object")
    content = encrypted.getpeercert(binary_form=True)
    writer.close()
    assert content is not None, "a verified peer has a certificate"
    return judge_certificate(
        f"{name} at {host}:{port}", x509.load_der_x509_certificate(content), now
    )


def judge_certificate(name: str, certificate: x509.Certificate, now: datetime) -> Finding:
    """Return a finding about the time for which a certificate is still valid."""
    left = certificate.not_valid_after_utc - now
    if left < timedelta():
        return fault(f"the certificate of {name} has expired", "renew it")
    told = f"the certificate of {name} is valid for {left.days} more days"
    if left < timedelta(days=CERTIFICATE_DAYS_MIN):
        return warning(told, "renew it, and find out why nothing renewed it by itself")
    return fine(told)
