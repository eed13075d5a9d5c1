# SPDX-License-Identifier: Apache-2.0
"""Measures what TLS adds to a message: in the process, and in a proxy on the same core."""

import os
import ssl
import statistics
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.peers.processes import cpu_seconds, with_children
from bench.server import SERVER_CORE, own_folder, own_server
from scripts.services.proxies import HAProxy, Nginx, Proxy
from tidings.certificates import trust_only
from tidings.tools.load_crowd import Crowd, allow_connections
from tidings.tools.load_runs import throughput

PLAIN: Final = "plain"
IN_PROCESS: Final = "in the process"
_PROXIES: Final[tuple[type[Proxy], ...]] = (Nginx, HAProxy)


class TlsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one way to serve, over all rounds."""

    way: str
    us: float
    """Median CPU time of the server and its proxy per message, in microseconds."""
    ratio: float
    """Median of the ratio to the plain server in the same round."""


class Way(msgspec.Struct, frozen=True):
    """One way to serve, and a crowd that is connected to it."""

    name: str
    crowd: Crowd
    cpu: Callable[[], float]


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)


async def run(options: Namespace) -> list[TlsResult]:
    """Measure all ways in turn, several times; print the medians."""
    allow_connections(8 * options.pairs)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(own_folder())
        identity = _make_identity(folder)
        opened = [_plain(), _own(identity)]
        opened += [_behind(kind, folder, identity) for kind in _PROXIES]
        ways = [await stack.enter_async_context(way) for way in opened]
        rounds = [[await _us(way, options) for way in ways] for _ in range(options.rounds)]
    results = [
        TlsResult(
            way=way.name,
            us=statistics.median(us[place] for us in rounds),
            ratio=statistics.median(us[place] / us[0] for us in rounds),
        )
        for place, way in enumerate(ways)
    ]
    for result in results:
        print(f"{result.way:16} {result.us:6.1f} µs a message, {result.ratio:.2f} times plain")
    return results


async def _us(way: Way, options: Namespace) -> float:
    found = await throughput(
        way.crowd, options.pairs, options.window, options.seconds, server_cpu=way.cpu
    )
    assert found.server_us is not None, "the server is on this machine"
    return found.server_us


class _Identity(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path

    def trust(self) -> ssl.SSLContext:
        return trust_only(self.certificate.read_text())


def _make_identity(folder: Path) -> _Identity:
    made = _Identity(folder / "tls.pem", folder / "tls.key")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "1")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(made.key), "-out", str(made.certificate))
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *name, *files], check=True, capture_output=True
    )
    made.key.chmod(0o600)
    return made


@asynccontextmanager
async def _plain() -> AsyncIterator[Way]:
    async with own_server() as target, Crowd(target.url, target.root_key) as crowd:
        yield Way(PLAIN, crowd, target.cpu_seconds)


@asynccontextmanager
async def _own(identity: _Identity) -> AsyncIterator[Way]:
    settings = {
        "TIDINGS_TLS_CERT": str(identity.certificate),
        "TIDINGS_TLS_KEY": str(identity.key),
    }
    async with (
        own_server(settings=settings) as target,
        Crowd(target.url, target.root_key, trust=identity.trust()) as crowd,
    ):
        yield Way(IN_PROCESS, crowd, target.cpu_seconds)


@asynccontextmanager
async def _behind(kind: type[Proxy], folder: Path, identity: _Identity) -> AsyncIterator[Way]:
    async with own_server() as target:
        port = int(target.url.rpartition(":")[2])
        with kind(folder / kind.name, port, identity.certificate, identity.key) as proxy:
            pids = with_children(proxy.pid)
            for pid in pids:
                os.sched_setaffinity(pid, {SERVER_CORE})

            def cpu() -> float:
                return target.cpu_seconds() + cpu_seconds(pids)

            async with Crowd(proxy.address, target.root_key, trust=identity.trust()) as crowd:
                yield Way(f"behind {kind.name}", crowd, cpu)
