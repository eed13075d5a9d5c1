# SPDX-License-Identifier: Apache-2.0
"""The port with a certificate: what slow handshakes get, and which certificates it takes."""

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.certificates import Authority
from tests.support.clock import ManualClock
from tests.support.settings import config_of
from tests.support.waiting import until
from tests.unit.test_config import NO_FILE, load, mistakes
from tests.unit.test_listener import UPGRADE, Client, Ear, Visitors
from tidings.assembly.tls import port_certificate
from tidings.certificates import CertificateFiles, make_context
from tidings.doctor.examination import examine
from tidings.doctor.findings import Subject
from tidings.gateway.http import encryption
from tidings.gateway.http.connection_limits import ConnectionLimits, Waiting
from tidings.gateway.http.encryption import FirstBytes
from tidings.gateway.http.listener import Http, Listener, ProtocolFactory

HELLO = bytes((22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3)) + bytes(32)
"""The beginning of a handshake."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Encrypted(Visitors):
    """A port with a certificate, and its visitors."""

    trust: ssl.SSLContext

    async def comes_encrypted(self, *said: bytes) -> Client:
        return await self.comes(*said, tls=self.trust)


@asynccontextmanager
async def a_port(
    authority: Authority,
    *,
    seconds_max: float = 10,
    descriptors: int = 1_024,
    limits: ConnectionLimits | None = None,
    protocol: ProtocolFactory = Ear,
) -> AsyncIterator[Encrypted]:
    context = make_context(CertificateFiles(authority.issue("port").both))
    door = Listener(
        protocol,
        limits or ConnectionLimits(descriptors),
        has_sockets=True,
        first_bytes_seconds_max=seconds_max,
        tls=lambda: context,
    )
    await door.open("127.0.0.1", 0)
    visitors = Encrypted(door)
    visitors.trust = ssl.create_default_context(cafile=str(authority.certificate))
    try:
        yield visitors
    finally:
        await door.close()
        visitors.go()
        await asyncio.sleep(0)


async def test_the_first_bytes_decide_in_whatever_parts_they_come(authority: Authority) -> None:
    async with a_port(authority) as visitors:
        client = await visitors.comes_encrypted(UPGRADE[:3], UPGRADE[3:10], UPGRADE[10:])
        await client.hears(b"socket " + UPGRADE)
        client.writer.write(b"and more")
        await client.hears(b"and more")


@pytest.mark.attack("S08")
async def test_half_a_handshake_ends_in_time(authority: Authority) -> None:
    async with a_port(authority, seconds_max=0.2) as visitors:
        await (await visitors.comes(HELLO)).hears_the_end()
        for start in (b"", b"GET"):
            # A slow machine may not even have shaken hands in time.
            with suppress(ConnectionError, ssl.SSLError):
                await (await visitors.comes_encrypted(start)).hears_the_end()


@pytest.mark.attack("S08", "F08")
async def test_slow_handshakes_keep_nobody_out(authority: Authority) -> None:
    async with a_port(authority, descriptors=48) as visitors:  # 3 connections may be undecided
        slow = [await visitors.comes(HELLO) for _ in range(3)]
        silent = [await visitors.comes_encrypted() for _ in range(3)]
        talking = await visitors.comes_encrypted(UPGRADE)
        await talking.hears(b"socket " + UPGRADE)
        for client in slow:
            await client.hears_the_end()
        silent[-1].writer.write(UPGRADE)
        await silent[-1].hears(b"socket " + UPGRADE)


def stops_reading(client: Client) -> None:
    """The client does not see the end of the connection, and so never confirms it."""
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]


@pytest.mark.attack("S08", "F08")
async def test_a_refused_client_counts_until_its_connection_is_closed() -> None:
    waiting: Waiting = asyncio.get_running_loop().create_future()
    asked: list[bytes] = []

    def refuse(_transport: asyncio.Transport, data: bytes) -> bool:
        asked.append(data)
        return False

    first = FirstBytes(waiting, 3, refuse)
    first.connection_made(Mock())
    first.data_received(b"GET")
    first.data_received(b" /")
    assert asked == [b"GET"]
    assert not waiting.done()
    first.connection_lost(None)
    assert isinstance(waiting.exception(), ConnectionResetError)


@pytest.mark.attack("S08", "F08")
async def test_an_idle_client_makes_room_without_being_asked(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "CLOSE_SECONDS_MAX", 1_000.0)

    async def app(_scope: object, _receive: object, send: Callable[..., Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    limits = ConnectionLimits(1_024)
    http = Http(app, None, limits)
    async with a_port(authority, limits=limits, protocol=http.protocol) as visitors:
        client = await visitors.comes_encrypted(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.hears(b"HTTP/1.1 204")
        stops_reading(client)
        [connection] = http.connections
        connection._slot.close()
        await until(lambda: http.connections, equals=[])
        await http.drain()


async def test_a_closed_port_ends_handshakes(authority: Authority) -> None:
    async with a_port(authority) as visitors:
        waiting = await visitors.comes(HELLO)
        talking = await visitors.comes_encrypted(UPGRADE)
        await talking.hears(b"socket " + UPGRADE)
        await visitors.door.close()
        await waiting.hears_the_end()
        talking.writer.write(b"still here")
        await talking.hears(b"still here")


# --- Settings ----------------------------------------------------------------------------------


def test_a_certificate_and_its_key(authority: Authority) -> None:
    mine = authority.issue("mine")
    network = load(TLS_KEY=str(mine.key), TLS_CERT=str(mine.certificate)).network
    assert (network.tls_cert, network.tls_key) == (mine.certificate, mine.key)
    flags: dict[str, str | None] = {"tls_cert": str(mine.both)}
    config = load(flags)
    assert config.network.tls_cert == mine.both
    [source] = [one.source for one in config.settings if one.name == "tls_cert"]
    assert source == "--tls-cert"


def test_a_renewal_during_the_start_does_not_end_the_server(authority: Authority) -> None:
    mine = authority.issue("mine")
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert port_certificate(config_of(tls_cert=mine.both).network) is not None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_pairs_that_do_not_fit(authority: Authority, tmp_path: Path) -> None:
    mine, other = authority.issue("mine"), authority.issue("other")
    chain, key = str(mine.certificate), str(mine.key)
    locked = tmp_path / "locked.key"
    secret = load_pem_private_key(mine.key.read_bytes(), None)
    locked.touch(mode=0o600)
    locked.write_bytes(
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass"))
    )
    for settings, told in (
        ({"TLS_KEY": key}, "TIDINGS_TLS_KEY has no effect without TIDINGS_TLS_CERT"),
        ({"TLS_CERT": chain}, "name the file of the key with TIDINGS_TLS_KEY"),
        ({"TLS_CERT": chain, "TLS_KEY": str(other.key)}, "does not belong to the certificate"),
        ({"TLS_CERT": chain, "TLS_KEY": str(locked)}, "has a password"),
        ({"TLS_CERT": chain, "TLS_KEY": chain}, "does not contain a private key"),
        ({"TLS_CERT": key, "TLS_KEY": key}, "does not contain a certificate"),
        ({"TLS_CERT": chain, "TLS_KEY": f"{key}s"}, "cannot be read"),
    ):
        [mistake] = mistakes(None, NO_FILE, **settings)
        assert told in mistake


def test_a_key_that_others_may_read_is_refused(authority: Authority) -> None:
    mine = authority.issue("mine")
    mine.both.chmod(0o644)
    [mistake] = mistakes(TLS_CERT=str(mine.both))
    assert "may be read or changed by others (mode 0644)" in mistake
    mine.certificate.chmod(0o644)
    load(TLS_KEY=str(mine.key), TLS_CERT=str(mine.certificate))


# --- The doctor --------------------------------------------------------------------------------


async def test_what_the_doctor_says(authority: Authority, tmp_path: Path) -> None:
    mine, other = authority.issue("mine"), authority.issue("other")
    config = config_of(data=tmp_path, tls_cert=mine.certificate, tls_key=mine.key)
    now = datetime.now(UTC)

    async def levels(days: int, url: str | None, served: Path) -> list[str]:
        clock = ManualClock()
        clock.time = int((now + timedelta(days=days)).timestamp() * 1_000)
        served_pem = served.read_text()
        subject = Subject(config, clock, public_url=url, server_certificate=served_pem)
        found = await examine(subject)
        return [finding.level for finding in found if finding.check == "tls"]

    assert await levels(0, None, mine.certificate) == ["warning", "ok"]
    assert await levels(2, None, mine.certificate) == ["fault", "ok"]
    assert await levels(0, "https://127.0.0.1:9", mine.certificate) == ["warning", "ok"]
    assert await levels(0, "https://chat.example.com:9", mine.certificate) == ["fault", "warning"]
    assert await levels(0, None, other.certificate) == ["warning", "warning", "ok"]
