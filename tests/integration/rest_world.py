# SPDX-License-Identifier: Apache-2.0
"""The REST application over a real store in a folder, called in-process; time moves by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import apsw
import httpx
from starlette.routing import Router

from tests.integration.conformance import check_answer
from tests.support.canary import canary
from tests.support.clock import ManualClock
from tests.support.settings import config_of
from tests.support.short_waits import erasures_here
from tidings.actions.state import StateVerbs
from tidings.api.access import Access
from tidings.api.operations import Operation
from tidings.assembly import Core, open_core
from tidings.assembly.cluster import make_limits
from tidings.assembly.rest import make_identity_verbs, make_rest
from tidings.assembly.state import StateReporter
from tidings.gateway.hub import Hub
from tidings.ports.processes import Trouble
from tidings.ports.world import FailpointName

Json = dict[str, Any]

ROOT_KEY: Final = "root-key-of-the-rest-tests-0123456789"
TENANT: Final = "acme"
NOWHERE: Final = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
"""The id of a chat that does not exist."""
_READS: Final = ("GET", "HEAD", "OPTIONS")


class Disk:
    """A disk that is full from when a test says so."""

    def __init__(self) -> None:
        self.is_full = False

    def armed(self, place: FailpointName) -> bool:
        return False

    def reach(self, place: FailpointName) -> None:
        if self.is_full and place == "before_commit":
            raise apsw.FullError("disk full, says the test")


class Condition:
    """What the server says about itself."""

    trouble: Trouble | None = None


@dataclass
class Rest:
    """The application, and who may call it."""

    app: Router
    clock: ManualClock
    disk: Disk
    condition: Condition
    http: httpx.AsyncClient
    core: Core
    state: StateVerbs
    _keys: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> "Actor":
        return Actor(self.http, "root", ROOT_KEY)

    @property
    def nobody(self) -> "Actor":
        return Actor(self.http, "nobody", None)

    async def tenant(self, tenant: str = TENANT) -> "Actor":
        """A tenant's backend; the first call makes the tenant and its key."""
        if tenant not in self._keys:
            await self.root.ok("PUT", f"/v1/tenants/{tenant}", {"name": tenant})
            made = await self.root.ok("POST", f"/v1/tenants/{tenant}/keys")
            self._keys[tenant] = made["key"]
        return Actor(self.http, tenant, self._keys[tenant])

    async def user(self, user_id: str, tenant: str = TENANT) -> "Actor":
        """A user with a token."""
        backend = await self.tenant(tenant)
        made = await backend.ok("POST", f"/v1/tenants/{tenant}/tokens", {"user_id": user_id})
        return Actor(self.http, user_id, made["token"])

    async def caller_of(self, one: Operation) -> "Actor":
        """Somebody who may call an operation."""
        match one.key:
            case "user" | "user or tenant":
                return await self.user("alice")
            case "tenant":
                return await self.tenant()
            case "root" | None:
                return self.root

    async def users(self, *names: str) -> "list[Actor]":
        """Several users."""
        return [await self.user(name) for name in names]


@dataclass(frozen=True)
class Actor:
    """Somebody with a credential, or without."""

    http: httpx.AsyncClient
    name: str
    credential: str | None

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """The answer, whatever it is, as long as the document names it."""
        own = {"Authorization": f"Bearer {self.credential}"} if self.credential else {}
        if body is not None:
            more["json"] = body
        asked = {**own, **(headers or {})}
        answer = await self.http.request(method, path, headers=asked, **more)
        check_answer(answer)
        return answer

    async def ok(self, method: str, path: str, body: object = None) -> Any:
        """What a request that has to succeed answers with."""
        answer = await self.call(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def refused(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """Status and code of a request that has to be refused."""
        return problem(await self.call(method, path, body))

    async def direct(self, other: str) -> str:
        """The direct chat with somebody."""
        chat = await self.ok("POST", "/v1/chats", {"type": "direct", "members": [other]})
        return str(chat["chat_id"])

    async def group(self, *others: str, name: str = "Team") -> str:
        """A new group."""
        wish = {"type": "group", "name": name, "members": list(others)}
        return str((await self.ok("POST", "/v1/chats", wish))["chat_id"])

    async def send(self, chat: str, cmid: str, text: str | None = None, **more: Any) -> Json:
        """Post a message."""
        content = canary(cmid) if text is None else text
        body = {"client_message_id": cmid, "content": content, **more}
        sent: Json = await self.ok("POST", f"/v1/chats/{chat}/messages", body)
        return sent


def address(one: Operation, **parts: object) -> str:
    """A path of an operation, to what is not there unless a part says otherwise."""
    names: Json = {
        "chat_id": NOWHERE,
        "device": "phone",
        "emoji": "👍",
        "aside_id": f"{'0' * 26}-0",
        "attachment_id": NOWHERE,
        "inbox": "nowhere",
        "job_id": f"delete-chat-{NOWHERE}",
        "key_id": "0" * 16,
        "signing_key_id": f"{TENANT}.{'0' * 16}",
        "limit": 10,
        "link": "nowhere",
        "message_id": f"{NOWHERE}.2",
        "notification_id": "b1",
        "action": "ok",
        "report_id": NOWHERE,
        "scheduled_id": NOWHERE,
        "sequence": 2,
        "session_id": NOWHERE,
        "tenant": TENANT,
        "user_id": "bob",
        "webhook_id": "nowhere",
        "delivery_id": f"{NOWHERE}.2",
        **parts,
    }
    return one.path.format(**{name: names[name] for name in one.path_parameters})


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, which has the form that every refusal has.

    The answer to a HEAD request has no body, and therefore no code.
    """
    assert not answer.is_success, answer.text
    if answer.request.method == "HEAD":
        assert not answer.content
        return answer.status_code, ""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert {"type", "title", "status", "detail", "code"} <= body.keys(), body
    assert body["status"] == answer.status_code
    assert body["type"].endswith(body["code"])
    return answer.status_code, body["code"]


def texts_sent(core: Core) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook of a client, so that texts which a request had sent are there with its answer."""

    async def wait(_: httpx.Response) -> None:
        await core.logins.request_code.queue.settled()

    return wait


def revocations_seen(core: Core) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook of a client, so that what a request revoked is gone from the caches with its answer:
    a server learns of it seconds later."""

    async def look(answer: httpx.Response) -> None:
        if answer.request.method not in _READS and not answer.url.path.startswith("/v1/chats"):
            await core.watch.look()

    return look


@asynccontextmanager
async def open_rest(
    folder: Path,
    *,
    master_key: bytes | None = None,
    settings: Mapping[str, Any] | None = None,
    access: Access | None = None,
    time: int | None = None,
) -> AsyncIterator[Rest]:
    """Open a deployment in the folder, at this time if one is given; with a master key it comes
    from the environment.
    """
    clock, disk, condition = ManualClock(), Disk(), Condition()
    clock.time = time or clock.time
    engine: Json = dict(settings or {})
    config = config_of(data=folder, root_key=ROOT_KEY, master_key=master_key, **engine)
    broke: list[Exception] = []
    with erasures_here():
        async with open_core(config, broke.append, clock=clock, failpoints=disk) as core:
            access = access or Access(make_limits(config, None))
            state = StateReporter(config, core, None, condition, Hub()).verbs()
            app = make_rest(core, condition, make_identity_verbs(core), state, access=access)
            transport = httpx.ASGITransport(cast(Any, app), raise_app_exceptions=False)
            hooks = {"response": [texts_sent(core), revocations_seen(core)]}
            await core.watch.start()
            async with httpx.AsyncClient(
                transport=transport, base_url="http://tidings", event_hooks=hooks
            ) as http:
                yield Rest(app, clock, disk, condition, http, core, state)
    assert bool(broke) == disk.is_full
