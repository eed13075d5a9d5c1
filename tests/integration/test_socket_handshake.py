# SPDX-License-Identifier: Apache-2.0
"""The handshake on the one port: origins, paths, versions, and sockets out of HTTP connections."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from tests.integration.raw_socket import RawSocket, upgrade_request, ws_frame
from tests.integration.socket_town import people, troubles
from tests.support.people import Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "https://app.example.com"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
PROBLEM = "application/problem+json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server with one page besides its own that may open sockets."""
    data = tmp_path_factory.mktemp("server") / "data"
    async with ServerProcess(data, environment={"TIDINGS_ALLOWED_ORIGINS": APP}) as running:
        yield running
    assert troubles(running) == []


async def status(server: ServerProcess, request: bytes) -> int:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(request)
        return await raw.status()


async def status_with(server: ServerProcess, **headers: str | None) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await status(server, upgrade_request(server.port, headers=named))


# Origins.


@pytest.mark.attack("C01", "C02")
@pytest.mark.parametrize(
    ("origin", "answer"),
    [
        (None, 101),
        ("http://127.0.0.1:{port}", 101),
        ("https://127.0.0.1:{port}", 101),
        (APP, 101),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1:{port}.evil.tld", 403),
        ("http://127.0.0.1:{port}@evil.tld", 403),
        ("http://evil.tld/127.0.0.1:{port}", 403),
        ("ws://127.0.0.1:{port}", 403),
        ("127.0.0.1:{port}", 403),
        ("http://app.example.com", 403),
        ("https://app.example.com.evil.tld", 403),
        ("https://evilapp.example.com", 403),
        ("https://sub.app.example.com", 403),
        ("https://app.example.com:8443", 403),
        ("https://app.example.com/", 403),
        ("https://app.example.com https://evil.tld", 403),
        ("https://evil.tld", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
        ("http://\xff\xfe", 403),
    ],
)
async def test_only_pages_of_this_host_and_of_the_list_open_sockets(
    server: ServerProcess, origin: str | None, answer: int
) -> None:
    said = origin and origin.format(port=server.port)
    assert await status_with(server, Origin=said) == answer


@pytest.mark.attack("C02")
async def test_a_host_of_ones_own_making_is_no_way_round(server: ServerProcess) -> None:
    assert await status_with(server, Host="evil.tld", Origin="http://other.tld") == 403
    assert await status_with(server, Host=None, Origin="http://evil.tld") == 400
    assert await status_with(server, Host=None, Origin="http://None") == 400


# Paths, methods, versions.


@pytest.mark.parametrize("path", ["/v1/wsx", "/v1/ws/", "/v1", "/v1/ws%20", "//v1/ws"])
async def test_no_other_path_is_a_socket(server: ServerProcess, path: str) -> None:
    assert await status(server, upgrade_request(server.port, path)) == 404


async def test_a_page_is_a_page_also_for_who_asks_for_a_socket(server: ServerProcess) -> None:
    assert await status(server, upgrade_request(server.port, "/")) == 200


async def test_the_path_may_have_a_query(server: ServerProcess) -> None:
    assert await status(server, upgrade_request(server.port, "/v1/ws?a=b")) == 101


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "get", "OPTIONS"])
async def test_a_socket_is_got(server: ServerProcess, method: str) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(upgrade_request(server.port, method=method))
        answer, _, _ = await raw.answer(has_body=method != "HEAD")
    assert 400 <= answer < 500


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("Connection", "keep-alive, Upgrade", 101),
        ("Connection", "upgrade", 101),
        ("Connection", "keep-alive", 400),
        ("Connection", None, 400),
        ("Upgrade", "WebSocket", 101),
        ("Upgrade", "h2c", 400),
        ("Upgrade", None, 400),
        ("Sec-WebSocket-Version", "12", 426),
        ("Sec-WebSocket-Version", "\xff", 426),
        ("Sec-WebSocket-Version", None, 426),
        ("Sec-WebSocket-Key", "short", 400),
        ("Sec-WebSocket-Key", "\xff" * 24, 400),
        ("Sec-WebSocket-Key", None, 400),
        ("Sec-WebSocket-Extensions", "permessage-deflate", 101),
        ("Content-Length", "5", 400),
        ("Transfer-Encoding", "chunked", 400),
        ("Bad Name", "x", 400),
    ],
)
async def test_a_handshake_is_in_order_or_refused(
    server: ServerProcess, name: str, value: str | None, answer: int
) -> None:
    request = upgrade_request(server.port, headers={name: value})
    assert await status(server, request) == answer


async def test_another_version_is_told_which_one_is_spoken(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(upgrade_request(server.port, headers={"Sec-WebSocket-Version": "8"}))
        _, headers, _ = await raw.answer()
    assert headers["sec-websocket-version"] == "13"


@pytest.mark.attack("C06")
async def test_nothing_is_compressed(server: ServerProcess) -> None:
    wish = {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    async with await RawSocket.connect(server.port) as raw:
        raw.write(upgrade_request(server.port, headers=wish))
        answer, headers, _ = await raw.answer()
    assert (answer, headers.get("sec-websocket-extensions")) == (101, None)


async def test_pages_and_rest_are_at_the_same_port(town: Town) -> None:
    assert (await town.http.get("/healthz")).status_code == 200
    missing = await town.http.get("/v1/wsx")
    assert (missing.status_code, missing.headers["content-type"]) == (404, PROBLEM)
    assert (await town.http.get("/v1/ws")).status_code == 400
    assert (await town.http.post("/v1/ws")).status_code in (404, 405)


# Out of a kept-alive connection.


async def test_a_kept_alive_connection_becomes_a_socket_with_its_bytes(
    town: Town, server: ServerProcess
) -> None:
    [ann] = await people(town, "ann")
    hello = msgspec.json.encode({"op": "hello", "token": ann.token, "device": "kept"})
    async with await RawSocket.connect(server.port) as raw:
        for _ in range(2):
            raw.write(HEALTH)
            assert await raw.status() == 200
        raw.write([upgrade_request(server.port), ws_frame(hello), ws_frame(b'{"op":"ping"}')])
        assert await raw.status() == 101
        await raw.frame("welcome")
        await raw.frame("live")
        for _ in range(3):
            raw.tell({"op": "ping"})
            await raw.frame("pong")
        raw.write(ws_frame(b"{}", 0x2))
        assert await raw.close_code() == 4400


async def test_a_kept_alive_connection_is_judged_like_any_other(server: ServerProcess) -> None:
    for request, answer in (
        (upgrade_request(server.port, headers={"Origin": "https://evil.tld"}), 403),
        (upgrade_request(server.port, headers={"Sec-WebSocket-Key": "x"}), 400),
    ):
        async with await RawSocket.connect(server.port) as raw:
            raw.write(HEALTH)
            assert await raw.status() == 200
            raw.write(request + b"and whatever else")
            assert await raw.status() == answer
            assert await raw.close_code() == 1006


async def test_a_socket_does_not_begin_inside_an_answer(server: ServerProcess) -> None:
    async with await RawSocket.connect(server.port) as raw:
        raw.write(HEALTH + upgrade_request(server.port))
        with pytest.raises(EOFError):
            await raw.status()
