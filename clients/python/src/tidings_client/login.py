# SPDX-License-Identifier: Apache-2.0
"""Log in by phone with a code from a text message, and renew the tokens after that."""

import asyncio
import os
from ssl import SSLContext
from typing import Self

import httpx

from tidings_client.errors import LoggedOut, Refused
from tidings_client.login_file import LoginFile, SessionTokens
from tidings_client.rest import Rest, path_of
from tidings_client.tokens import Tokens
from tidings_client.world import SystemWorld, World


class PhoneLogin:
    """The phone login of one user on one device. Use it as an async context manager.

    Pass `token` to a Client as its source of tokens; each call renews the session. A refresh token
    is valid for one renewal, so the next one is saved before the answer is used. If an answer is
    lost, the renewal is repeated with the same refresh token, which the server allows for half a
    minute.

    Every method raises Refused if the server declines, and Unavailable if it cannot be reached.
    """

    def __init__(
        self,
        url: str,
        tenant: str,
        device: str,
        *,
        file: str | os.PathLike[str] | None = None,
        ssl_context: SSLContext | None = None,
        world: World | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create a login, and load the session from the file if there is one.

        Args:
            url: The server, such as `https://chat.example.org`.
            tenant: The tenant that the user belongs to.
            device: The name of this device; a login ends an earlier login on the same device.
            file: The file that stores the session across restarts. Only its owner can read it, and
                only one process at a time may use it. Without a file, the session is in memory.
            ssl_context: The trusted certificates for `https`; by default those of the system.
            world: The source of time and randomness.
            transport: Replaces the network in tests.
        """
        self._tenant = tenant
        self._device = device
        self._world: World = world or SystemWorld()
        url = url.rstrip("/")
        self._rest = Rest(url, None, self._world, ssl_context, transport)
        own = Tokens(self.token, self._world.wall)
        self._own_rest = Rest(url, own, self._world, ssl_context, transport)
        self._file = None if file is None else LoginFile(file)
        self._tokens = self._file.load() if self._file else None
        self._fresh: str | None = None
        """An access token that no caller has got yet."""
        self._renewing: asyncio.Task[str] | None = None
        self._turn = asyncio.Lock()
        """Lock that is held while the tokens change."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish a renewal in progress, and close the connections. The user stays logged in."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])
        await self._rest.close()
        await self._own_rest.close()

    @property
    def user(self) -> str | None:
        """The user who is logged in, as far as this object knows; None if nobody is."""
        return None if self._tokens is None else self._tokens.user_id

    async def request_code(self, phone_number: str) -> None:
        """Request a code for a number, written like +41 79 123 45 67.

        The request is not repeated automatically, because each request may send a text message.
        """
        body = {"tenant": self._tenant, "phone_number": phone_number}
        await self._rest.request("POST", "/v1/auth/codes", body)

    async def log_in(self, phone_number: str, code: str) -> str:
        """Log in with the received code; return the user's id.

        This replaces an earlier login of this object.
        """
        body = {
            "tenant": self._tenant,
            "phone_number": phone_number,
            "code": code,
            "device": self._device,
        }
        tokens = await self._rest.ask(SessionTokens, "POST", "/v1/auth/sessions", body)
        async with self._turn:
            await self._keep(tokens)
        return tokens.user_id

    async def token(self) -> str:
        """Return a new token. Concurrent calls share one renewal.

        Raises:
            LoggedOut: Nobody is logged in, or the session has ended; log in again.
            StorageTrouble: The new tokens cannot be saved. The next call repeats the renewal.
        """
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._next())
            self._renewing.add_done_callback(_look)
        # A caller that is cancelled must not cancel the renewal: the old token would be used up,
        # and the new one lost.
        return await asyncio.shield(self._renewing)

    async def log_out(self) -> None:
        """End the session, on the server and here."""
        tokens = self._tokens
        if tokens is None:
            return
        try:
            await self._own_rest.request("DELETE", path_of("sessions", tokens.session_id))
        except LoggedOut:
            return
        except Refused as refused:
            if refused.status not in (401, 404):
                raise
        async with self._turn:
            await self._forget()

    async def _next(self) -> str:
        async with self._turn:
            if self._tokens is None:
                raise LoggedOut("nobody is logged in")
            if self._fresh is None:
                await self._keep(await self._renew(self._tokens))
            token, self._fresh = self._fresh, None
            assert token is not None
            return token

    async def _renew(self, tokens: SessionTokens) -> SessionTokens:
        body = {"refresh_token": tokens.refresh_token}
        try:
            return await self._rest.ask(
                SessionTokens, "POST", "/v1/auth/refresh", body, is_safe=True
            )
        except Refused as refused:
            if refused.status != 401:
                raise
            await self._forget()
            raise LoggedOut(refused.detail) from None

    async def _keep(self, tokens: SessionTokens) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.save, tokens)
        self._tokens, self._fresh = tokens, tokens.access_token

    async def _forget(self) -> None:
        self._tokens = self._fresh = None
        if self._file is not None:
            await asyncio.to_thread(self._file.remove)


def _look(task: "asyncio.Task[str]") -> None:
    """Mark an error as retrieved, in case no caller is waiting; the next call tries again."""
    if not task.cancelled():
        task.exception()
