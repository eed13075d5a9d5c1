# SPDX-License-Identifier: Apache-2.0
"""Inboxes over REST: a tenant's backend that posts, and the runner that delivers what it posted."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest_asyncio

from tests.integration.rest_world import TENANT, Actor, Json, Rest
from tests.support.waiting import until
from tidings.actions.inbox.composing import EmailSubscription, UnsubscribeLinks
from tidings.assembly import Core
from tidings.assembly.system import back_off
from tidings.delivery.job_runner import JobRunner
from tidings.model.ids import user_key


@asynccontextmanager
async def running_jobs(core: Core) -> AsyncIterator[None]:
    """Deliver what is posted, for as long as the context is open."""
    runner = JobRunner(
        jobs=core.jobs,
        dead_letters=core.store.dead_letters,
        deliver=core.inbox.deliver,
        clock=core.clock,
        back_off=back_off,
    )
    runner.start()
    try:
        yield
    finally:
        await runner.close()


def unsubscribe_link(core: Core, tenant: str) -> str:
    """The last part of the link in an e-mail to the owner."""
    about = EmailSubscription(user_key(tenant, "owner"), "news", "offers")
    url = UnsubscribeLinks(core.vault.cursors).make("https://chat.example.org", about)
    return url.rpartition("/")[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def delivering(rest: Rest) -> AsyncIterator[None]:
    """What is posted is delivered, in every test of a module that imports this."""
    async with running_jobs(rest.core):
        yield


@dataclass(frozen=True)
class Newsroom:
    """A tenant's backend, with one of its inboxes."""

    rest: Rest
    actor: Actor
    tenant: str
    inbox: str

    @property
    def path(self) -> str:
        return f"/v1/tenants/{self.tenant}/inboxes/{self.inbox}"

    async def user(self, user_id: str) -> "Reader":
        """A user of the tenant."""
        return Reader(await self.rest.user(user_id, self.tenant), self.inbox)

    async def try_post(
        self, body: Json, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Whatever posting this answers with."""
        return await self.actor.call("POST", f"{self.path}/notifications", body, headers)

    async def post(self, body: Json, headers: Mapping[str, str] | None = None) -> Json:
        """Post something that is taken."""
        answer = await self.try_post(body, headers)
        assert answer.status_code == 202, answer.text
        posted: Json = answer.json()
        return posted

    async def tell(self, uids: Sequence[str], title: str, **more: Any) -> str:
        """Post to listed users, and wait until they have it; returns the id."""
        posted = await self.post(to_users(uids, title, **more))
        await self.delivered(posted["id"])
        return str(posted["id"])

    async def tell_everyone(self, title: str, **more: Any) -> str:
        """Post to everyone; returns the id."""
        return str((await self.post(to_everyone(title, **more)))["id"])

    async def delivered(self, notification_id: str) -> Json:
        """The progress, once all is delivered."""
        told: Json = {}

        async def is_over() -> bool:
            told.update(await self.progress(notification_id))
            return told["status"] not in ("queued", "running")

        await until(is_over, describe=lambda: told)
        return told

    async def progress(self, notification_id: str) -> Json:
        """How far one has got."""
        got: Json = await self.actor.ok("GET", f"{self.path}/notifications/{notification_id}")
        return got

    async def redact(self, notification_id: str) -> None:
        """Take one back."""
        await self.actor.ok("DELETE", f"{self.path}/notifications/{notification_id}")


@dataclass(frozen=True)
class Reader:
    """A user with one of the tenant's inboxes."""

    actor: Actor
    inbox: str

    async def page(self, query: str = "") -> Json:
        """A page of the list."""
        got: Json = await self.actor.ok("GET", f"/v1/inboxes/{self.inbox}/notifications{query}")
        return got

    async def titles(self, query: str = "") -> list[str]:
        """The titles on the first page."""
        return [one["message"]["title"] for one in (await self.page(query))["data"]]

    async def all_ids(self, limit: int, query: str = "") -> list[str]:
        """Every id, page by page."""
        ids: list[str] = []
        cursor = ""
        while True:
            page = await self.page(f"?limit={limit}{query}{cursor}")
            assert len(page["data"]) <= limit
            ids += [one["id"] for one in page["data"]]
            if page["next_cursor"] is None:
                return ids
            cursor = f"&cursor={page['next_cursor']}"

    async def unread(self) -> Json:
        """The count."""
        got: Json = await self.actor.ok("GET", f"/v1/inboxes/{self.inbox}/unread")
        return got

    async def read(self, **change: Any) -> Json:
        """Mark as read; what is left."""
        got: Json = await self.actor.ok("PUT", f"/v1/inboxes/{self.inbox}/read", change)
        return got


def to_users(uids: Sequence[str], title: str, **more: Any) -> Json:
    """A request to post to listed users."""
    audience = {"kind": "users", "uids": list(uids)}
    return {"audience": audience, "message": {"title": title, "body": "…"}, **more}


def to_everyone(title: str, **more: Any) -> Json:
    """A request to post to everyone."""
    message = {"title": title, "body": "…"}
    return {"audience": {"kind": "everyone"}, "message": message, **more}


async def open_newsroom(rest: Rest, inbox: str, tenant: str = TENANT, **config: Any) -> Newsroom:
    """A tenant's backend with an inbox that is as the test wants it."""
    actor = await rest.tenant(tenant)
    await actor.ok("PUT", f"/v1/tenants/{tenant}/inboxes/{inbox}", {"title": inbox, **config})
    return Newsroom(rest, actor, tenant, inbox)
