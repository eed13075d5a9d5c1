# SPDX-License-Identifier: Apache-2.0
"""Get the user's token: at first, before it expires, and when the server has refused it."""

import asyncio
import inspect
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

TokenProvider = Callable[[], str | Awaitable[str]]
"""Function that returns a new token on each call, directly or as an awaitable."""

MARGIN_SECONDS_MAX: Final = 60.0
"""How long before its expiry a token is replaced. A short-lived token is replaced when a fifth of
its life is left."""


class _Claims(msgspec.Struct):
    exp: float


_decode_claims = msgspec.json.Decoder(_Claims).decode


def expiry(token: str) -> float | None:
    """Return when a JWT expires, in seconds since 1970; None if it has no expiry.

    The signature is not checked.
    """
    try:
        payload = token.split(".")[1]
        return _decode_claims(urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).exp
    except (IndexError, ValueError, msgspec.DecodeError):
        return None


class Tokens:
    """Gets tokens from the provider, one at a time, and reuses the last token while it is valid."""

    def __init__(self, provider: TokenProvider, wall: Callable[[], float]) -> None:
        """Create without a token; `wall` returns the time in seconds since 1970."""
        self._provider = provider
        self._wall = wall
        self._token: str | None = None
        self._renew_at: float | None = None
        self._asking = asyncio.Lock()

    async def current(self) -> str:
        """Return a token that is valid for some time. Raises whatever the provider raises."""
        async with self._asking:
            if self._token is None or self.seconds_left() <= 0:
                await self._ask()
            assert self._token is not None
            return self._token

    async def replaced(self, refused: str) -> str:
        """Return another token than this one, which was refused or is about to expire."""
        async with self._asking:
            if self._token is None or self._token == refused:
                await self._ask()
            assert self._token is not None
            return self._token

    def seconds_left(self) -> float:
        """Return the seconds until the token should be replaced; infinite if it has no expiry."""
        return float("inf") if self._renew_at is None else self._renew_at - self._wall()

    async def _ask(self) -> None:
        given = self._provider()
        token = await given if inspect.isawaitable(given) else given
        ends, now = expiry(token), self._wall()
        self._token = token
        self._renew_at = (
            None if ends is None else ends - min(MARGIN_SECONDS_MAX, max(0.0, ends - now) / 5)
        )
