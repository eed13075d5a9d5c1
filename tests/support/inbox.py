# SPDX-License-Identifier: Apache-2.0
"""An inbox of a tenant, used over REST as a product would use it."""

from collections.abc import Iterable
from typing import Any

import httpx

from tests.support.canary import canary
from tests.support.people import Json, Person, Town
from tests.support.waiting import until


class Inbox:
    """One inbox of a tenant."""

    def __init__(self, town: Town, name: str = "news") -> None:
        self.town = town
        self.name = name

    async def make(self, **config: Any) -> "Inbox":
        """Create the inbox, or change its configuration."""
        await self._call("PUT", "", {"title": "News", "description": "", **config})
        return self

    async def post(self, users: Iterable[str] | None, text: str = "hello", **more: Any) -> Json:
        """Post a notification to these users, or to everyone; return the answer."""
        audience: Json = {"kind": "everyone"}
        if users is not None:
            audience = {"kind": "users", "uids": list(users)}
        message = {"title": text, "body": canary(text)}
        key = more.pop("key", None)
        body = {"audience": audience, "message": message, **more}
        headers = {"Idempotency-Key": key} if key else {}
        return await self._call("POST", "/notifications", body, headers)

    async def progress(self, notification_id: str) -> Json:
        """Return the progress of a notification."""
        return await self._call("GET", f"/notifications/{notification_id}")

    async def done(self, notification_id: str, seconds: float = 60) -> Json:
        """Wait until all users of a notification have it; return the progress."""
        told: Json = {}

        async def status() -> object:
            told.update(await self.progress(notification_id))
            return told["status"]

        await until(status, equals="done", describe=lambda: told, seconds=seconds)
        return told

    async def redact(self, notification_id: str) -> None:
        """Retract a notification."""
        await self._call("DELETE", f"/notifications/{notification_id}")

    async def listed(self, person: Person, **query: Any) -> list[Json]:
        """Return the first page of a user's notifications."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        where = f"/v1/inboxes/{self.name}/notifications"
        page = await person.call("GET", f"{where}?{asked}" if asked else where)
        found: list[Json] = page["data"]
        return found

    async def read(self, person: Person, **marks: Any) -> Json:
        """Mark notifications of a user as read; return the unread counts."""
        left: Json = await person.call("PUT", f"/v1/inboxes/{self.name}/read", marks)
        return left

    async def _call(
        self, method: str, path: str, body: Json | None = None, headers: Json | None = None
    ) -> Json:
        answer = await self.request(method, path, body, headers)
        answer.raise_for_status()
        told: Json = answer.json() if answer.content else {}
        return told

    async def request(
        self, method: str, path: str, body: Json | None = None, headers: Json | None = None
    ) -> httpx.Response:
        """Send any request with the tenant's key; return the answer, even a refusal."""
        key = {"Authorization": f"Bearer {await self.town.tenant_key()}"}
        where = f"/v1/tenants/{self.town.tenant}/inboxes/{self.name}{path}"
        return await self.town.http.request(
            method, where, json=body, headers={**key, **(headers or {})}
        )
