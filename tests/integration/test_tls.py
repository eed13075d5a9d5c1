# SPDX-License-Identifier: Apache-2.0
"""The port with a certificate: requests, sockets, a new certificate, and clients without TLS."""

import asyncio
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import pytest
import pytest_asyncio

from tests.integration.raw_socket import RawSocket
from tests.integration.socket_town import friends, people, troubles
from tests.support.certificates import Authority
from tests.support.command import tidings
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.waiting import WAIT_SECONDS, until
from tidings_client import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HELLO: Final = bytes((22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3)) + bytes(32)
"""The beginning of a handshake, whose record has 512 bytes."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> AsyncIterator[ServerProcess]:
    identity = authority.issue("port")
    settings = {"TIDINGS_TLS_CERT": str(identity.certificate), "TIDINGS_TLS_KEY": str(identity.key)}
    data = tmp_path_factory.mktemp("server") / "data"
    async with ServerProcess(data, environment=settings) as running:
        yield running
    refused = [line for line in running.log_lines() if line.get("action") == "certificate_refused"]
    assert troubles(running) == refused


@pytest.fixture(scope="module")
def trust(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


async def test_requests_and_sockets(
    server: ServerProcess, town: Town, trust: ssl.SSLContext
) -> None:
    chat, [ann, bob] = await friends(town, "ann", "bob")
    async with (
        await RawSocket.greeted(server.port, bob.token, tls=trust) as listening,
        httpx.AsyncClient(
            base_url=server.url, verify=trust, trust_env=False, timeout=WAIT_SECONDS
        ) as http,
    ):
        sent = await http.post(
            f"/v1/chats/{chat}/messages",
            json={"client_message_id": "m", "content": "x" * 3_000},
            headers={"Authorization": f"Bearer {ann.token}"},
        )
        assert sent.status_code == 201
        assert "max-age" in sent.headers["strict-transport-security"]
        while (await listening.frame("entry"))["sequence"] != sent.json()["sequence"]:
            pass
        missing = await http.get("/v1/ws")
        assert missing.status_code == 400


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_versions_and_protocols(server: ServerProcess, authority: Authority) -> None:
    def asked(newest: ssl.TLSVersion) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(authority.certificate))
        made.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        made.maximum_version = newest
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.set_alpn_protocols(["h2", "http/1.1"])
        return made

    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=asked(newest))
        secure: ssl.SSLObject = writer.get_extra_info("ssl_object")
        assert secure.version() == newest.name.replace("_", ".")
        assert secure.selected_alpn_protocol() == "http/1.1"
        [cipher, *_] = secure.cipher() or ("",)
        assert "GCM" in cipher or "CHACHA20" in cipher
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert secure.session is not None
        assert secure.session.has_ticket
        writer.transport.abort()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", server.port, ssl=asked(ssl.TLSVersion.TLSv1_1))


@pytest.mark.attack("C19")
async def test_plain_requests_are_told_to_use_tls(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as plain:
        plain.write(REQUEST)
        status, _, body = await plain.answer()
        assert status == 400
        assert "https://" in json.loads(body)["detail"]
        assert await plain.is_at_end()


@pytest.mark.parametrize("said", [HELLO[:6] + b"garbage" * 100, b"\0" * 100, b"\x16\x03\x01"])
async def test_bytes_that_are_no_handshake_end_the_connection(
    server: ServerProcess, said: bytes
) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(said)
        raw.hang_up()
        assert await raw.first_status() in (0, 400)
        assert await raw.is_at_end()


async def test_garbage_after_the_handshake_is_answered(
    server: ServerProcess, trust: ssl.SSLContext
) -> None:
    async with await RawSocket.connect(server.port, tls=trust) as raw:
        raw.write(b"\0" * 100)
        assert await raw.status() == 400
    async with await RawSocket.connect(server.port, tls=trust) as raw:
        raw.write(b"GET")
        raw.abort()


async def test_a_new_certificate_is_for_new_connections(
    server: ServerProcess, town: Town, authority: Authority, trust: ssl.SSLContext
) -> None:
    [ann] = await people(town, "ann")
    chain = Path(server.environment["TIDINGS_TLS_CERT"])
    key = Path(server.environment["TIDINGS_TLS_KEY"])
    first = await shown(server)
    async with await RawSocket.greeted(server.port, ann.token, tls=trust) as open_before:
        old_chain, renewed = chain.read_bytes(), authority.issue("renewed")
        chain.write_bytes(renewed.certificate.read_bytes())
        os.kill(server.pid, signal.SIGHUP)  # without its key
        await until(lambda: reloads(server), equals=["certificate_refused"])
        assert await shown(server) == first

        key.write_bytes(renewed.key.read_bytes())
        os.kill(server.pid, signal.SIGHUP)
        await until(lambda: reloads(server)[1:], equals=["certificate_loaded"])
        assert await shown(server) == ssl.PEM_cert_to_DER_cert(renewed.certificate.read_text())
        assert chain.read_bytes() != old_chain
        open_before.tell({"op": "ping"})
        await open_before.frame("pong")


async def test_commands_and_clients(
    server: ServerProcess, town: Town, trust: ssl.SSLContext, authority: Authority
) -> None:
    chat, [ann, bob] = await friends(town, "ann", "bob")
    listed = await tidings("tenants", "list", "--data", server.data)
    assert (listed.code, listed.errors) == (0, "")
    assert town.tenant.encode() in listed.out
    elsewhere = ("tenants", "list", "--server", server.url.replace("127.0.0.1", "localhost"))
    unknown = await tidings(*elsewhere, "--data", server.data)
    assert "certificate verify failed" in unknown.errors
    trusted = {"SSL_CERT_FILE": str(authority.certificate)}
    known = await tidings(*elsewhere, "--data", server.data, environment=trusted)
    assert (known.code, known.out) == (0, listed.out)

    async def token() -> str:
        return ann.token

    async with Client(server.url, token=token, device="d", ssl_context=trust) as client:
        await client.send(chat, "over TLS")
    assert [one["content"] for one in await bob.history(chat)] == ["over TLS"]


async def test_the_doctor(server: ServerProcess) -> None:
    said = await tidings("doctor", "--json", "--data", server.data, environment=server.environment)
    found = {
        (each["check"], each["level"], each["what"]) for each in json.loads(said.out)["findings"]
    }
    chain = server.environment["TIDINGS_TLS_CERT"]
    valid = f"the certificate of TIDINGS_TLS_CERT ({chain}) is valid for 0 more days"
    assert ("tls", "warning", valid) in found
    assert ("tls", "ok", "the certificate is for localhost, 127.0.0.1") in found
    assert ("server", "ok", f"the server at {server.url} is ready") in found


async def shown(server: ServerProcess) -> bytes | None:
    """The certificate that a new connection gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    secure: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return secure.getpeercert(binary_form=True)


def reloads(server: ServerProcess) -> list[str]:
    """What the signals so far came to."""
    actions = [str(line.get("action")) for line in server.log_lines()]
    return [action for action in actions if action.startswith("certificate_")]
