# SPDX-License-Identifier: Apache-2.0
"""Attacks by the backend of a tenant: expensive schemas, and large posts."""

import asyncio
from typing import Any, Final

import msgspec

from bench.neighbours.ground import TENANT, Ground, NotPrepared
from bench.neighbours.http_client import HttpClient

POSTS_AT_ONCE: Final = 12
LARGE_USERS: Final = 90_000
"""Number of users that makes a body of about 6.5 MB, with ids of the maximum length."""
DEPTHS: Final = (6, 4, 3, 2, 1)


class CostlySchema:
    """Posts messages to an inbox whose schema has nested alternatives, which are expensive to
    check."""

    id = "S09"
    title = "nested message schemas"

    def __init__(self) -> None:
        self._key = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """Create an inbox with the deepest schema that the server accepts."""
        self._key = await _tenant_key(ground)
        path = f"/v1/tenants/{TENANT}/inboxes/costly"
        for depth in DEPTHS:
            body = {"title": "Costly", "message_schema": nested_schema(depth)}
            try:
                await ground.call("PUT", path, self._key, body)
            except NotPrepared:
                continue
            break
        message = {"title": "t", "body": "b", "data": nested_value(6)}
        self._body = msgspec.json.encode({"audience": {"kind": "everyone"}, "message": message})

    async def strike(self, ground: Ground) -> None:
        """Send three posts at once."""
        await _post_at_once(ground, "costly", self._key, self._body, 3)


class LargePosts:
    """Posts to very many listed users, several posts at once."""

    id = "S16"
    title = "12 posts of 6.5 MB at once"

    def __init__(self) -> None:
        self._key = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """Create the inbox, and encode the body of the posts."""
        self._key = await _tenant_key(ground)
        await ground.call("PUT", f"/v1/tenants/{TENANT}/inboxes/large", self._key, {"title": "L"})
        users = [f"{number:064d}" for number in range(ground.of(LARGE_USERS, 1_000))]
        message = {"title": "t", "body": "b"}
        self._body = msgspec.json.encode(
            {"audience": {"kind": "users", "uids": users}, "message": message}
        )

    async def strike(self, ground: Ground) -> None:
        """Send all posts at once."""
        await _post_at_once(ground, "large", self._key, self._body, POSTS_AT_ONCE)


async def _tenant_key(ground: Ground) -> str:
    """Create and return a key of the attacker's tenant."""
    made = await ground.call("POST", f"/v1/tenants/{TENANT}/keys", ground.target.root_key)
    return str(made["key"])


async def _post_at_once(ground: Ground, inbox: str, key: str, body: bytes, count: int) -> None:
    """Send the same post this many times at once, each over its own connection."""
    path = f"/v1/tenants/{TENANT}/inboxes/{inbox}/notifications"

    async def post() -> None:
        async with HttpClient(ground.target.url) as client:
            await ground.strike(client, "POST", path, key, body)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(post())


def nested_schema(depth: int) -> dict[str, Any]:
    """Return a schema with alternatives within items within alternatives, so that each level checks
    a value again."""
    schema: dict[str, Any] = {"type": "string", "maxLength": 0}
    for level in range(depth):
        alternatives = [
            {"items": schema, "minItems": level + extra, "maxItems": 500} for extra in range(3)
        ]
        schema = {"anyOf": alternatives}
    return {"properties": {"data": schema}}


def nested_value(depth: int) -> list[Any]:
    """Return a value for which every alternative fails as late as possible."""
    value: Any = "x"
    for _ in range(depth):
        value = [value, value, value]
    return list(value)
