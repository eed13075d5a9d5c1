# SPDX-License-Identifier: Apache-2.0
"""Every frame of the socket, said by every kind of caller, comes to what the matrix says."""

import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, get_args

import httpx
import pytest
import pytest_asyncio

from tests.attacks.matrix import (
    CALLERS,
    DEAD,
    FOREIGNER,
    FRAMES,
    MEMBERS,
    OUTSIDERS,
    Outcome,
)
from tests.attacks.scenes import EXPIRED_MS, SHORT_SECONDS, phone_number
from tests.integration.engines import engine as engine
from tests.integration.rest_world import NOWHERE, ROOT_KEY, Actor, open_rest
from tests.integration.socket_town import closed_with, told
from tests.support.client_socket import Frame, Socket
from tests.support.engine import Settings, as_environment
from tests.support.server import ServerProcess
from tests.support.waiting import until
from tidings.wire.frames import ClientFrame

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACME: Final = "/v1/tenants/acme"
PHONE: Final = phone_number(1)
ANSWERS: Final = ("welcome", "sent", "page", "pong", "gone")


@dataclass
class Street:
    """A running server with a chat, and what each caller has to show."""

    server: ServerProcess
    http: httpx.AsyncClient
    credentials: dict[str, str]
    chat: str = ""

    def actor(self, caller: str) -> Actor:
        """Somebody, for requests."""
        return Actor(self.http, caller, self.credentials[caller])

    async def key(self, tenant: str) -> Any:
        """A new key of a tenant, which is made if there is none."""
        root = self.actor("root_key")
        await root.ok("PUT", f"/v1/tenants/{tenant}", {})
        return await root.ok("POST", f"/v1/tenants/{tenant}/keys")

    async def token(self, key: str, user: str, tenant: str = "acme") -> str:
        """A token for a user, made with a key."""
        backend = Actor(self.http, tenant, key)
        path = f"/v1/tenants/{tenant}/tokens"
        return str((await backend.ok("POST", path, {"user_id": user}))["token"])

    async def frames(self, op: str, caller: str, chat: str) -> Frame:
        """A frame in good order."""
        more: dict[str, Frame] = {
            "hello": {"token": self.credentials[caller], "device": "phone"},
            "send": {"id": "1", "client_message_id": caller, "content": "hi"},
            "received": {"sequence": 1},
            "read": {"sequence": 1},
            "fetch": {"id": "1", "after": 0},
            "follow": {"after": 0},
            "away": {"away": True},
            "auth": {"token": self.credentials[caller]},
        }
        is_of_chat = op in ("send", "received", "read", "typing", "fetch", "follow")
        return {"op": op, **({"chat": chat} if is_of_chat else {}), **more.get(op, {})}

    async def said(self, op: str, caller: str, chat: str) -> tuple[Outcome, Frame]:
        """What a frame comes to on a connection of its own, and the answer to it."""
        socket = Socket(self.server.url)
        await socket.open()
        if caller != "anonymous":
            socket.tell(await self.frames("hello", caller, chat))
            await socket.until(lambda: told(socket, "live") or not socket.is_open)
        heard = 0 if op == "hello" else len(socket.raw)
        if op != "hello" or caller == "anonymous":
            socket.tell(await self.frames(op, caller, chat))
        try:
            return await _outcome(socket, heard, FRAMES[op][caller])
        finally:
            await socket.drop()


async def _outcome(socket: Socket, heard: int, expected: Outcome) -> tuple[Outcome, Frame]:
    if isinstance(expected, int):
        return await closed_with(socket), {}
    if expected == "nothing":
        # A refusal would have to be looked up: so is this, and it stands behind it.
        socket.tell({"op": "fetch", "id": "last", "chat": NOWHERE, "after": 0})
    ends: list[Frame] = []

    def is_answered() -> bool:
        ends[:] = [frame for frame in socket.raw[heard:] if frame["op"] in (*ANSWERS, "refused")]
        return bool(ends) or not socket.is_open

    await socket.until(is_answered)
    if not ends:
        return socket.closes[-1], {}
    if ends[0].get("id") == "last":
        return "nothing", {}
    return str(ends[0].get("code", ends[0]["op"])), ends[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def street(
    tmp_path_factory: pytest.TempPathFactory, settings: Settings
) -> AsyncIterator[Street]:
    """One of everything, on a server of its own."""
    data = tmp_path_factory.mktemp("server") / "data"
    long_ago = time.time_ns() // 1_000_000 - SHORT_SECONDS * 1_000 - EXPIRED_MS
    async with open_rest(data, settings=settings, time=long_ago) as rest:
        backend = await rest.tenant("acme")
        wish = {"user_id": "owner", "expires_in": SHORT_SECONDS}
        expired = (await backend.ok("POST", f"{ACME}/tokens", wish))["token"]
    environment = {**as_environment(settings), "TIDINGS_ROOT_KEY": ROOT_KEY}
    async with (
        ServerProcess(data, environment=environment, waits="revocations") as server,
        httpx.AsyncClient(base_url=server.url, verify=False, trust_env=False, timeout=30) as http,
    ):
        made = Street(server, http, {"root_key": ROOT_KEY, "expired_token": expired})
        await _inhabit(made)
        await _bury(made)
        yield made


async def _inhabit(street: Street) -> None:
    key = (await street.key("acme"))["key"]
    other = (await street.key("other"))["key"]
    street.credentials |= {"anonymous": "", "tenant_key": key, "key_of_another_tenant": other}
    for user in (*MEMBERS, *OUTSIDERS, "deactivated_user"):
        street.credentials[user] = await street.token(key, user)
    street.credentials[FOREIGNER] = await street.token(other, "owner", "other")
    owner = street.actor("owner")
    street.chat = await owner.group("admin", "member", "former_member", "deactivated_user")
    path = f"/v1/chats/{street.chat}/members"
    await owner.ok("PUT", f"{path}/admin", {"role": "admin"})
    await owner.ok("DELETE", f"{path}/former_member")


async def _bury(street: Street) -> None:
    """Credentials that were good a moment ago."""
    backend, root = street.actor("tenant_key"), street.actor("root_key")
    await backend.ok("PUT", f"{ACME}/settings", {"login": {"phone": True}})
    await backend.ok("PUT", f"{ACME}/users/owner", {"phone_number": PHONE})
    # A new number ends all that the user was given before.
    street.credentials["owner"] = await street.token(street.credentials["tenant_key"], "owner")
    session = await _log_in(street)
    await street.actor("owner").ok("DELETE", f"/v1/sessions/{session['session_id']}")
    await backend.ok("PUT", f"{ACME}/users/deactivated_user", {"deactivated": True})
    made = await street.key("acme")
    of_revoked = await street.token(made["key"], "owner")
    await root.ok("DELETE", f"{ACME}/keys/{made['key_id']}")
    shut = (await street.key("shut"))["key"]
    its_user = await street.token(shut, "owner", "shut")
    await root.ok("PUT", "/v1/tenants/shut", {"suspended": True})
    street.credentials |= {
        "revoked_session": session["access_token"],
        "revoked_key": made["key"],
        "token_of_a_revoked_key": of_revoked,
        "key_of_a_suspended_tenant": shut,
        "token_of_a_suspended_tenant": its_user,
    }

    async def answers() -> set[int]:
        called = [await street.actor(caller).call("GET", "/v1/me") for caller in DEAD]
        return {answer.status_code for answer in called}

    await until(answers, equals={401})


def _texts(street: Street) -> list[Any]:
    return [line for line in street.server.log_lines() if line.get("phone_number") == PHONE]


async def _log_in(street: Street) -> Any:
    nobody = Actor(street.http, "nobody", None)
    whom = {"tenant": "acme", "phone_number": PHONE}
    await nobody.ok("POST", "/v1/auth/codes", whom)
    texts = await until(lambda: _texts(street))
    code = re.search(r"\b\d{6}\b", texts[-1]["text"])
    assert code is not None
    body = {**whom, "code": code[0], "device": "phone"}
    return await nobody.ok("POST", "/v1/auth/sessions", body)


@pytest.mark.attack("H12")
async def test_every_frame_has_a_row_and_every_row_has_a_frame() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(ClientFrame)} == FRAMES.keys()
    for row in FRAMES.values():
        assert row.keys() == set(CALLERS)


@pytest.mark.attack("A17", "C13", "D01", "D02")
@pytest.mark.parametrize("op", FRAMES)
async def test_what_each_caller_is_told(street: Street, op: str) -> None:
    log = f"/v1/chats/{street.chat}/entries"
    before = await street.actor("owner").ok("GET", log)
    outcomes = {}
    for caller in CALLERS:
        outcomes[caller], answer = await street.said(op, caller, street.chat)
        if outcomes[caller] in ("chat.not_found", "gone"):
            same, told = await street.said(op, caller, NOWHERE)
            named = {"chat": NOWHERE} if "chat" in answer else {}
            assert (same, told) == (outcomes[caller], answer | named), (
                f"{caller} can tell it from none"
            )
    assert outcomes == FRAMES[op]
    after = await street.actor("owner").ok("GET", log)
    new = [entry["sender"] for entry in after["data"][len(before["data"]) :]]
    assert new == (list(MEMBERS) if op == "send" else [])
