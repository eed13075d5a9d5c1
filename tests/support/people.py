# SPDX-License-Identifier: Apache-2.0
"""A tenant and its users, used over REST as a product would use them."""

import secrets
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.canary import canary
from tests.support.device import Device
from tests.support.phones import PHONE_LOGIN

Json = dict[str, Any]


class Town:
    """One tenant of a running server."""

    def __init__(self, url: str, root_key: str, tenant: str = "town") -> None:
        self.url = url
        self.tenant = tenant
        self.root_key = root_key
        self._tenant_key: str | None = None
        self.http = httpx.AsyncClient(base_url=url, verify=False, trust_env=False, timeout=30)
        """Client without a key, for requests that have no method here."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.http.aclose()

    async def tenant_key(self) -> str:
        """Return the tenant's key; the first call creates the tenant and the key."""
        if self._tenant_key is None:
            root = {"Authorization": f"Bearer {self.root_key}"}
            made = await self.http.put(f"/v1/tenants/{self.tenant}", json={}, headers=root)
            made.raise_for_status()
            answer = await self.http.post(f"/v1/tenants/{self.tenant}/keys", headers=root)
            answer.raise_for_status()
            self._tenant_key = str(answer.json()["key"])
        return self._tenant_key

    async def get(self, url: str, key: str) -> httpx.Response:
        """Get something with a key; raise an error if it is refused."""
        answer = await self.http.get(url, headers={"Authorization": f"Bearer {key}"})
        return answer.raise_for_status()

    async def switch_on_phone_login(self) -> None:
        """Let users log in by phone, and unknown numbers register."""
        answer = await self.http.put(
            f"/v1/tenants/{self.tenant}/settings",
            json=PHONE_LOGIN,
            headers={"Authorization": f"Bearer {await self.tenant_key()}"},
        )
        answer.raise_for_status()

    async def user(self, user_id: str, *, expires_in: int = 3_600) -> "Person":
        """Return a user with a token; create the user if there is none."""
        return Person(self, user_id, await self.token(user_id, expires_in=expires_in))

    async def token(
        self, user_id: str, *, device: str | None = None, expires_in: int = 3_600
    ) -> str:
        """Return a token for a user, optionally for one device only."""
        wish: Json = {"user_id": user_id, "expires_in": expires_in}
        if device is not None:
            wish["device"] = device
        answer = await self.http.post(
            f"/v1/tenants/{self.tenant}/tokens",
            json=wish,
            headers={"Authorization": f"Bearer {await self.tenant_key()}"},
        )
        answer.raise_for_status()
        return str(answer.json()["token"])


class Person:
    """A user with a token: REST requests as methods, and devices."""

    def __init__(self, town: Town, user_id: str, token: str) -> None:
        self.town = town
        self.user_id = user_id
        self.token = token

    def device(self, name: str = "phone", *, reconnects: bool = False) -> Device:
        """Return a device of this user, which is not connected yet."""
        return Device(self.town.url, self.token, name, reconnects=reconnects)

    async def request(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        """Send any request with this user's token; return the answer, even a refusal."""
        return await self.town.http.request(
            method, path, json=body, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def call(self, method: str, path: str, body: Json | None = None) -> Any:
        """Send any request that must succeed; return the decoded answer."""
        answer = await self.request(method, path, body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    async def create_direct(self, other: "Person") -> str:
        """Create the direct chat with another user; return its id."""
        chat = await self.call("POST", "/v1/chats", {"type": "direct", "members": [other.user_id]})
        return str(chat["chat_id"])

    async def create_group(self, name: str, members: list["Person"]) -> str:
        """Create a group with these users; return its id."""
        wish = {"type": "group", "name": name, "members": [m.user_id for m in members]}
        return str((await self.call("POST", "/v1/chats", wish))["chat_id"])

    async def add(self, chat: str, other: "Person", role: str | None = None) -> None:
        """Add a member, or change a role."""
        body: Json = {} if role is None else {"role": role}
        await self.call("PUT", f"/v1/chats/{chat}/members/{other.user_id}", body)

    async def remove(self, chat: str, other: "Person") -> None:
        """Remove a member, or leave the chat."""
        await self.call("DELETE", f"/v1/chats/{chat}/members/{other.user_id}")

    async def send(
        self,
        chat: str,
        content: str | None = None,
        *,
        client_message_id: str | None = None,
        **more: Any,
    ) -> Json:
        """Post a message, and return it."""
        key = client_message_id or secrets.token_hex(8)
        body = {"client_message_id": key, "content": content or canary(key), **more}
        message: Json = await self.call("POST", f"/v1/chats/{chat}/messages", body)
        return message

    async def history(self, chat: str, *, limit: int = 50) -> list[Json]:
        """Return the newest messages, newest first."""
        page = await self.call("GET", f"/v1/chats/{chat}/messages?limit={limit}")
        messages: list[Json] = page["data"]
        return messages

    async def log(self, chat: str) -> list[Json]:
        """Return the whole log, oldest entry first."""
        entries: list[Json] = []
        after: int | None = 0
        while after is not None:
            page = await self.call("GET", f"/v1/chats/{chat}/entries?limit=100&after={after}")
            entries += page["data"]
            after = page["next_after"]
        return entries
