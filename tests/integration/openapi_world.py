# SPDX-License-Identifier: Apache-2.0
"""Tenants for requests that are made from the OpenAPI document, and what sends these requests."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

from tests.integration.rest_server import serve_rest
from tests.integration.rest_world import ROOT_KEY, Rest
from tests.support.waiting import WAIT_SECONDS
from tidings.api.app import OPERATIONS
from tidings.model.ids import rfc3339

Case = schemathesis.Case[Any]

KEYS: Final = {one.name: one.key for one in OPERATIONS}
MESSAGES: Final = 3
NOTIFICATIONS: Final = 2
_READS: Final = ("GET", "HEAD")
_FILE: Final = {"name": "a.png", "content_type": "image/png", "size": 4}
_LATER_MS: Final = 3_600_000


class PlainSession(requests.Session):
    """Sends requests as they are; cookies, proxies and redirects would take as long as sending."""

    def request(  # type: ignore[override]
        self, method: str, url: str, **more: Any
    ) -> requests.Response:
        """Send a request on an open connection."""
        parts = {name: more.get(name) for name in ("headers", "params", "data", "json", "files")}
        prepared = requests.Request(method, url, **parts).prepare()
        return self.get_adapter(url).send(prepared, timeout=WAIT_SECONDS)


@dataclass(frozen=True)
class Place:
    """A tenant, the credentials of those who call, and the names of all that it has."""

    credentials: dict[str, str]
    names: dict[str, object]
    turn: Iterator[int] = field(default_factory=count)

    def present(self) -> dict[str, object]:
        """Names of what is there; of messages and notifications each time another one."""
        turn = next(self.turn)
        sequence, number = turn % MESSAGES + 2, turn % NOTIFICATIONS + 1
        return {
            **self.names,
            "message_id": f"{self.names['chat_id']}.{sequence}",
            "notification_id": f"b{number}",
            "sequence": sequence,
        }


@dataclass(frozen=True)
class World:
    """A server, and the tenants that were made in it."""

    url: str
    rest: Rest
    loop: asyncio.AbstractEventLoop
    session: PlainSession
    answers: Mapping[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Statuses of all answers to an operation."""
    _places: dict[str, Place] = field(default_factory=dict)

    def place_for(self, method: str) -> Place:
        """Return the tenant of all requests that only read; of others, a new one."""
        tenant = "read" if method in _READS else f"changed-{len(self._places)}"
        if tenant not in self._places:
            made = asyncio.run_coroutine_threadsafe(settle(self.rest, tenant), self.loop)
            self._places[tenant] = made.result(WAIT_SECONDS)
        return self._places[tenant]

    def call(self, case: Case, place: Place) -> None:
        """Send what was made, to what is there as far as the case is not about the path itself."""
        name = case.operation.definition.raw["operationId"]
        present = place.present()
        for part in case.path_parameters.keys() & present.keys() - varied(case):
            case.path_parameters[part] = present[part]
        kind = "user" if KEYS[name] == "user or tenant" else KEYS[name]
        headers = {"Authorization": f"Bearer {place.credentials[kind]}"} if kind else {}
        answer = case.call_and_validate(base_url=self.url, headers=headers, session=self.session)
        self.answers[name][answer.status_code] += 1


def varied(case: Case) -> set[str | None]:
    """Return the part of the path that the case varies, if it does."""
    about = case.meta.phase.data if case.meta is not None else None
    is_path = about is not None and about.parameter_location is ParameterLocation.PATH
    return {about.parameter} if about is not None and is_path else set()


async def settle(rest: Rest, tenant: str) -> Place:
    """Make a tenant with two users, what they have in common, and an inbox."""
    backend = await rest.tenant(tenant)
    alice, bob = [await rest.user(name, tenant) for name in ("alice", "bob")]
    chat = await alice.group("bob")
    messages = f"/v1/chats/{chat}/messages"
    for number in range(MESSAGES):
        await (alice, bob)[number % 2].send(chat, f"m{number}")
    later = {"send_at": rfc3339(rest.clock.time + _LATER_MS), "content": "later"}
    scheduled = await alice.ok("POST", messages, {"client_message_id": "later", **later})
    report = await alice.ok("POST", f"{messages}/3/report", {"reason": "spam"})
    upload = await alice.ok("POST", "/v1/attachments", _FILE)
    mine = f"/v1/tenants/{tenant}"
    await backend.ok("PUT", f"{mine}/webhooks/hook", {"url": None, "events": ["message.created"]})
    await backend.ok("PUT", f"{mine}/inboxes/news", {"title": "News"})
    notification = {"audience": {"kind": "everyone"}, "message": {"title": "x", "body": "y"}}
    for _ in range(NOTIFICATIONS):
        await backend.ok("POST", f"{mine}/inboxes/news/notifications", notification)
    assert backend.credential and alice.credential
    credentials = {"root": ROOT_KEY, "tenant": backend.credential, "user": alice.credential}
    names: dict[str, object] = {
        "attachment_id": upload["attachment_id"],
        "chat_id": chat,
        "emoji": "👍",
        "inbox": "news",
        "report_id": report["report_id"],
        "scheduled_id": scheduled["scheduled_id"],
        "tenant": tenant,
        "user_id": "bob",
        "webhook_id": "hook",
    }
    return Place(credentials, names)


@contextmanager
def a_world(folder: Path) -> Iterator[World]:
    """Serve the application in a thread while the context is open."""

    async def prepare(rest: Rest) -> tuple[Rest, asyncio.AbstractEventLoop]:
        return rest, asyncio.get_running_loop()

    with PlainSession() as session, serve_rest(folder, prepare) as (url, (rest, loop)):
        yield World(url, rest, loop, session)
