# SPDX-License-Identifier: Apache-2.0
"""nginx, HAProxy and Caddy in front of the port, each with its file from deploy/proxies."""

import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

import httpx
import msgspec
import pytest
import pytest_asyncio

from scripts.services.proxies import PROXIES, Proxy
from tests.integration.raw_socket import RawSocket, upgrade_request
from tests.integration.socket_town import friends, people, troubles
from tests.support.certificates import Authority
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.services import owned
from tests.support.waiting import until
from tidings.model.limits import ADDRESS_LOGINS_BURST, POST_BODY_BYTES_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")

STRANGER: Final = "127.0.0.3"
"""An address of this machine that is not one of the trusted proxies'."""
WAIT_SECONDS: Final = 60.0


@dataclass
class Front:
    """A proxy, what it stands before, and a client that knows its certificate."""

    proxy: Proxy
    server: ServerProcess
    http: httpx.AsyncClient
    tls: ssl.SSLContext | None

    async def socket(self, token: str, device: str = "raw") -> RawSocket:
        return await RawSocket.greeted(self.proxy.port, token, device, tls=self.tls)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """A server that trusts a proxy on this machine."""
    data = tmp_path_factory.mktemp("server") / "data"
    settings = {"TIDINGS_TRUSTED_PROXIES": "127.0.0.1", "TIDINGS_SMS": "off"}
    async with ServerProcess(data, environment=settings) as running:
        yield running
    assert troubles(running) == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=PROXIES, ids=lambda kind: kind.name)
def proxy(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    server: ServerProcess,
    authority: Authority,
) -> Iterator[Proxy]:
    """Each of them, running."""
    kind: type[Proxy] = request.param
    identity = authority.issue(kind.name)
    folder = tmp_path_factory.mktemp(kind.name.lower())
    made = kind(folder, server.port, identity.certificate, identity.key)
    yield from owned(request, made)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(proxy: Proxy, server: ServerProcess, authority: Authority) -> AsyncIterator[Front]:
    tls = None
    if proxy.scheme == "https":
        tls = ssl.create_default_context(cafile=str(authority.certificate))
    async with httpx.AsyncClient(
        base_url=proxy.address, verify=tls or True, trust_env=False, timeout=WAIT_SECONDS
    ) as http:
        made = Front(proxy, server, http, tls)
        await until_ready(made)
        yield made


async def until_ready(front: Front) -> None:
    """Wait until the proxy has found the server."""

    async def status() -> int:
        return (await front.http.get("/readyz")).status_code

    await until(status, equals=200)


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


async def test_requests_and_sockets_go_through(front: Front, town: Town) -> None:
    chat, [ann, bob] = await friends(town, "ann", "bob")
    async with await front.socket(bob.token) as listening:
        sent = await front.http.post(
            f"/v1/chats/{chat}/messages",
            json={"client_message_id": "m", "content": "grüße"},
            headers=bearer(ann.token),
        )
        assert sent.status_code == 201
        while (await listening.frame("entry"))["sequence"] != sent.json()["sequence"]:
            pass
    page = await front.http.get(f"/v1/chats/{chat}/messages", headers=bearer(bob.token))
    assert [one["content"] for one in page.json()["data"]] == ["grüße"]


async def test_a_browser_of_this_host_may_open_a_socket(front: Front) -> None:
    port = front.proxy.port
    for origin, status in ((front.proxy.address, 101), ("https://evil.tld", 403)):
        async with await RawSocket.connect(port, tls=front.tls) as raw:
            raw.write(upgrade_request(port, headers={"Origin": origin}))
            assert await raw.status() == status


async def test_the_largest_post_gets_through_and_a_larger_one_does_not(
    front: Front, town: Town
) -> None:
    key = bearer(await town.tenant_key())
    inbox = f"/v1/tenants/{town.tenant}/inboxes/news"
    made = await front.http.put(inbox, json={"title": "News", "description": ""}, headers=key)
    assert made.is_success
    post = {"audience": {"kind": "users", "uids": ["u"]}, "message": {"title": "t", "body": "b"}}
    body = msgspec.json.encode(post).ljust(POST_BODY_BYTES_MAX)
    headers = {**key, "Content-Type": "application/json"}
    answer = await front.http.post(f"{inbox}/notifications", content=body, headers=headers)
    assert (len(body), answer.status_code) == (8 << 20, 202)
    answer = await front.http.post(f"{inbox}/notifications", content=body + b" ", headers=headers)
    assert answer.status_code == 413


async def statuses_of_logins(front: Front, source: str) -> list[int]:
    """Ask for codes as often as an address may, and a few times more, in one invented name. On a
    slow machine an address may ask more often."""
    body = b'{"tenant":"nobody","phone":"+4915200000000"}'
    name = f"203.0.113.{PROXIES.index(type(front.proxy))}"
    request = (
        f"POST /v1/auth/codes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Forwarded-For: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    async with await RawSocket.connect(front.proxy.port, tls=front.tls, source=source) as raw:
        statuses: list[int] = []
        began = monotonic()
        while len(statuses) < ADDRESS_LOGINS_BURST + 20 + (monotonic() - began):
            raw.write(request)
            statuses.append(await raw.status())
    return statuses


@pytest.mark.attack("D16")
async def test_an_address_that_a_stranger_invented_is_not_believed(front: Front) -> None:
    assert 429 not in await statuses_of_logins(front, STRANGER)


@pytest.mark.attack("D16")
async def test_an_address_from_a_trusted_proxy_is_believed(front: Front) -> None:
    statuses = await statuses_of_logins(front, "127.0.0.1")
    assert (429 in statuses) is front.proxy.keeps_forwarded


async def test_https_is_told_to_the_server(front: Front) -> None:
    answer = await front.http.get("/healthz")
    has_told = "strict-transport-security" in answer.headers
    assert has_told is (front.proxy.scheme == "https")


async def test_a_drain_is_heard_through_the_proxy_and_the_next_start_is_found(
    front: Front, town: Town
) -> None:
    [ann] = await people(town, "ann")
    async with await front.socket(ann.token) as raw:
        assert await front.server.terminate() == 0
        assert (await raw.frame("bye"))["code"] == 1012
        assert await raw.close_code() == 1012
    answer = await front.http.get("/healthz")
    assert answer.status_code in (502, 503)
    await front.server.start()
    await until_ready(front)
    async with await front.socket(ann.token) as raw:
        raw.tell({"op": "ping"})
        await raw.frame("pong")
