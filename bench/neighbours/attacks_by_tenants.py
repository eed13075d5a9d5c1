# SPDX-License-Identifier: Apache-2.0
"""Attacks of a tenant's backend: costly schemas, and large posts."""

import asyncio
from typing import Any, Final

import msgspec

from bench.neighbours.ground import TENANT, Ground, NotPrepared
from bench.neighbours.http_client import HttpClient

POSTS_AT_ONCE: Final = 12
LARGE_USERS: Final = 90_000
"""As many of the longest ids as make a body of about 6.5 MB."""
DEPTHS: Final = (6, 4, 3, 2, 1)


class CostlySchema:
    """Posts whose messages a schema of nested alternatives has to judge."""

    id = "S09"
    title = "nested message schemas"

    def __init__(self) -> None:
        self._key = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """The deepest schema that the server takes."""
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
        """Three at once."""
        await _post_at_once(ground, "costly", self._key, self._body, 3)


class LargePosts:
    """Posts to very many listed users, all at once."""

    id = "S16"
    title = "12 posts of 6.5 MB at once"

    def __init__(self) -> None:
        self._key = ""
        self._body = b""

    async def prepare(self, ground: Ground) -> None:
        """An inbox, and the body."""
        self._key = await _tenant_key(ground)
        await ground.call("PUT", f"/v1/tenants/{TENANT}/inboxes/large", self._key, {"title": "L"})
        users = [f"{number:064d}" for number in range(ground.of(LARGE_USERS, 1_000))]
        message = {"title": "t", "body": "b"}
        self._body = msgspec.json.encode(
            {"audience": {"kind": "users", "uids": users}, "message": message}
        )

    async def strike(self, ground: Ground) -> None:
        """All of them."""
        await _post_at_once(ground, "large", self._key, self._body, POSTS_AT_ONCE)


async def _tenant_key(ground: Ground) -> str:
    """A key of the attacker's tenant."""
    made = await ground.call("POST", f"/v1/tenants/{TENANT}/keys", ground.target.root_key)
    return str(made["key"])


async def _post_at_once(ground: Ground, inbox: str, key: str, body: bytes, count: int) -> None:
    """The same post so many times at once, each over a connection of its own."""
    path = f"/v1/tenants/{TENANT}/inboxes/{inbox}/notifications"

    async def post() -> None:
        async with HttpClient(ground.target.url) as client:
            await ground.strike(client, "POST", path, key, body)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(post())


def nested_schema(depth: int) -> dict[str, Any]:
    """Alternatives within items within alternatives: each level looks at a value again."""
    schema: dict[str, Any] = {"type": "string", "maxLength": 0}
    for level in range(depth):
        alternatives = [
            {"items": schema, "minItems": level + extra, "maxItems": 500} for extra in range(3)
        ]
        schema = {"anyOf": alternatives}
    return {"properties": {"data": schema}}


def nested_value(depth: int) -> list[Any]:
    """A value in which every alternative fails as late as it can."""
    value: Any = "x"
    for _ in range(depth):
        value = [value, value, value]
    return list(value)
