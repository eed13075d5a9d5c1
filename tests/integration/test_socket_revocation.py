# SPDX-License-Identifier: Apache-2.0
"""Sockets of the real server hear of what ended in the feed, and close if they stand on it."""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.integration.engines import socket_engine as socket_engine
from tests.integration.login_world import phones as phones
from tests.integration.socket_town import closed_with, code_of_hello, people, settled, troubles
from tests.support.client_socket import Socket
from tests.support.device import Device
from tests.support.engine import Settings, as_environment
from tests.support.people import Town
from tests.support.phones import Phones, new_number
from tests.support.server import ServerProcess
from tests.unit.forgery import OwnForge
from tidings.wire.codes import Close

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings, phones: Phones
) -> AsyncIterator[ServerProcess]:
    """A server that sends its codes to the phones, and hears of what ended at once."""
    environment = as_environment({**settings, **phones.settings})
    data = tmp_path_factory.mktemp("server") / "data"
    waits = "revocations erasures store"
    async with ServerProcess(data, environment=environment, waits=waits) as running:
        yield running
    assert troubles(running) == []


class Keys:
    """Root and a tenant's backend on a running server."""

    def __init__(self, server: ServerProcess, town: Town) -> None:
        self._root = server.root_key
        self._town = town

    async def root(self, method: str, path: str, body: object = None) -> Any:
        return await self._call(self._root, method, path, body)

    async def backend(self, method: str, path: str, body: object = None) -> Any:
        key = await self._town.tenant_key()
        return await self._call(key, method, f"/v1/tenants/{self._town.tenant}{path}", body)

    async def _call(self, key: str, method: str, path: str, body: object) -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        answer = await self._town.http.request(method, path, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None


@pytest.fixture
def keys(server: ServerProcess, town: Town) -> Keys:
    return Keys(server, town)


async def log_in(town: Town, phones: Phones) -> dict[str, Any]:
    """The tokens of a session of somebody new."""
    await town.switch_on_phone_login()
    body = {"tenant": town.tenant, "phone_number": new_number()}
    (await town.http.post("/v1/auth/codes", json=body)).raise_for_status()
    code = await phones.next_code(body["phone_number"])
    login = {**body, "code": code, "device": "phone"}
    answer = await town.http.post("/v1/auth/sessions", json=login)
    answer.raise_for_status()
    return dict(answer.json())


async def me(town: Town, token: str) -> httpx.Response:
    """What a token is answered with."""
    return await town.http.get("/v1/me", headers={"Authorization": f"Bearer {token}"})


async def ends(town: Town, *devices: Device) -> None:
    """Wait until each is sent away for good, on the socket and over REST."""
    for device in devices:
        assert await closed_with(device) == Close.NOT_AUTHENTICATED
        bye = device.raw[-1]
        assert (bye["op"], bye["reconnect"]) == ("bye", False)
        assert (await me(town, device.token)).status_code == 401
        assert await code_of_hello(Socket(town.url), token=device.token, device="phone") == 4401


@pytest.mark.attack("A12", "A13")
async def test_sockets_of_users_and_sessions_that_ended_close(
    town: Town, keys: Keys, phones: Phones
) -> None:
    rita, dora, stays = await people(town, "rita", "dora", "stays")
    tokens = await log_in(town, phones)
    out = Device(town.url, tokens["access_token"], "phone")
    async with rita.device() as one, rita.device("laptop") as two, dora.device() as three:
        async with out, stays.device() as bystander:
            await keys.backend("DELETE", f"/users/{rita.user_id}/sessions")
            await keys.backend("PUT", f"/users/{dora.user_id}", {"deactivated": True})
            ended = await town.http.delete(
                f"/v1/sessions/{tokens['session_id']}",
                headers={"Authorization": f"Bearer {tokens['access_token']}"},
            )
            assert ended.status_code == 204
            again = await town.user(rita.user_id)
            async with again.device() as anew:
                await ends(town, one, two, three, out)
                await settled(anew)
                await settled(bystander)


@pytest.mark.attack("A12", "A18")
async def test_sockets_of_keys_that_were_taken_away_close(
    server: ServerProcess, town: Town, keys: Keys
) -> None:
    path = f"/v1/tenants/{town.tenant}/keys"
    made = await keys.root("POST", path)
    asked = await town.http.post(
        f"/v1/tenants/{town.tenant}/tokens",
        json={"user_id": "kim"},
        headers={"Authorization": f"Bearer {made['key']}"},
    )
    forge = OwnForge(Ed25519PrivateKey.generate())
    now = int(time.time())
    forge.claims |= {"tid": town.tenant, "sub": "own-ann", "iat": now, "exp": now + 600}
    await keys.backend("PUT", "/token-issuer", {"keys": [forge.jwk]})
    [old] = (await keys.backend("GET", "/signing-keys"))["data"]
    (before,) = await people(town, "before")
    await keys.backend("POST", "/signing-keys")
    (stays,) = await people(town, "stays")
    kim = Device(town.url, asked.json()["token"], "phone")
    own = Device(town.url, forge.with_claims(), "phone")
    async with stays.device() as bystander, before.device() as first, kim, own:
        await keys.root("DELETE", f"{path}/{made['key_id']}")
        await keys.backend("DELETE", "/token-issuer")
        await keys.backend("DELETE", f"/signing-keys/{old['key_id']}")
        await ends(town, first, kim, own)
        await settled(bystander)


@pytest.mark.attack("A13")
async def test_all_sockets_of_a_suspended_tenant_close(
    server: ServerProcess, town: Town, keys: Keys
) -> None:
    (stays,) = await people(town, "stays")
    async with Town(server.url, server.root_key, "suspended") as other, stays.device() as bystander:
        ann, bob = await people(other, "ann", "bob")
        async with ann.device() as one, bob.device() as two:
            await keys.root("PUT", "/v1/tenants/suspended", {"suspended": True})
            await ends(other, one, two)
        await keys.root("PUT", "/v1/tenants/suspended", {"suspended": False})
        async with ann.device() as back:
            await settled(back)
        await settled(bystander)


@pytest.mark.attack("A13")
async def test_a_revocation_that_races_a_hello_ends_the_socket_all_the_same(
    town: Town, keys: Keys
) -> None:
    racers = await people(town, *(f"racer{n}" for n in range(10)))
    sockets = [Socket(town.url) for _ in racers]
    for socket in sockets:
        await socket.open()
    ending = [
        asyncio.ensure_future(keys.backend("DELETE", f"/users/{racer.user_id}/sessions"))
        for racer in racers
    ]
    for socket, racer in zip(sockets, racers, strict=True):
        socket.tell({"op": "hello", "token": racer.token, "device": "phone"})
    await asyncio.gather(*ending)
    assert [await closed_with(socket) for socket in sockets] == [4401] * len(sockets)


async def test_devices_hear_whose_content_was_erased_live_and_at_the_next_hello(
    town: Town, keys: Keys
) -> None:
    writer, reader = await people(town, "writer", "reader")
    chat = await writer.create_direct(reader)
    async with writer.device() as device:
        await device.send(chat)
    socket, asks = Socket(town.url), {"op": "hello", "token": reader.token, "device": "phone"}
    await socket.open()
    socket.tell({**asks, "erasures": 0})
    await socket.frame("live")
    entry = await socket.frame("entry", kind="message")
    known = await socket.frame("erased")
    await keys.backend("DELETE", f"/users/{writer.user_id}/content")

    told = await socket.frame("erased", since=socket.raw.index(known) + 1)
    salt = bytes.fromhex(told["salt"])
    digest = hmac.digest(salt, writer.user_id.encode(), "sha256")[:8].hex()
    assert [author["digest"] for author in told["authors"]] == [digest]
    assert entry["created_at"] <= told["authors"][0]["before"]
    assert known["n"] < told["n"]
    await socket.drop()

    for place, authors in ((known["n"], told["authors"]), (told["n"], [])):
        since = len(socket.raw)
        await socket.open()
        socket.tell({**asks, "erasures": place})
        await socket.frame("live", since=since)
        (again,) = [frame for frame in socket.raw[since:] if frame["op"] == "erased"]
        assert (again["authors"], again["n"]) == (authors, told["n"])
        await socket.drop()


@pytest.mark.attack("A14")
async def test_a_token_in_the_address_of_a_socket_lets_nobody_in(
    server: ServerProcess, town: Town
) -> None:
    (ann,) = await people(town, "ann")
    socket = Socket(town.url)
    socket._url += f"?token={ann.token}&access_token={ann.token}"
    await socket.open()
    socket.tell({"op": "ping"})
    assert await closed_with(socket) == Close.NOT_AUTHENTICATED
    assert ann.token not in (server.data / "server.log").read_text()
