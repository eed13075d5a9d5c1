# SPDX-License-Identifier: Apache-2.0
"""Opens the client that posts requests to addresses of tenants, when the first request is
posted."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tidings.model.addresses import Networks
from tidings.ports.outgoing import EventPosts, SignedPosts
from tidings.ports.world import Chance, Clock

if TYPE_CHECKING:
    from tidings.outgoing.signed_posts import HttpSignedPosts


class LazySignedPosts:
    """Posts signed requests, and loads the HTTP client with the first of them.

    Most servers post none, and would start a fifth of a second later with the client.
    """

    def __init__(self, allowed: Networks, clock: Clock, chance: Chance) -> None:
        self._allowed = allowed
        self._clock = clock
        self._chance = chance
        self._posts: HttpSignedPosts | None = None

    async def post(self, url: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int) -> bytes:
        posts = self._posts or await self._open()
        return await posts.post(url, body, secrets, timeout_ms)

    async def send(
        self, url: str, post_id: str, body: bytes, secrets: Sequence[bytes], timeout_ms: int
    ) -> int:
        posts = self._posts or await self._open()
        return await posts.send(url, post_id, body, secrets, timeout_ms)

    async def close(self) -> None:
        """Close the connections."""
        if self._posts is not None:
            await self._posts.close()

    async def _open(self) -> "HttpSignedPosts":
        # Loading takes too long for the event loop.
        await asyncio.to_thread(import_module, "tidings.outgoing.signed_posts")
        from tidings.outgoing.signed_posts import HttpSignedPosts

        if self._posts is None:  # no other request has opened it meanwhile
            self._posts = HttpSignedPosts(self._allowed, self._clock, self._chance)
        return self._posts


_conforms: tuple[type[SignedPosts], type[EventPosts]] = (LazySignedPosts, LazySignedPosts)
