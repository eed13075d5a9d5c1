# SPDX-License-Identifier: Apache-2.0
"""A real server replays the transcripts of `clients/spec`: it says what they say that it says."""

import re
import secrets
from typing import Final
from urllib.parse import quote

import pytest

from tests.integration.engines import long_engine as long_engine
from tests.integration.socket_town import closed_with
from tests.support.client_socket import Socket
from tests.support.people import Town
from tests.support.server import ServerProcess
from tests.support.transcripts import Heard, Json, Transcript, Variables, transcripts

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def waits() -> str:
    return "revocations erasures"


IN_ORDER: Final = ("welcome", "heads", "entry", "resync", "gone", "erased", "live", "bye")
"""Frames that come in the order of the transcript; others may come between them."""
AUTOMATIC: Final = frozenset({"presence", "receipt", "unread", "pong"})


class Replay:
    """A device that says what the transcript says, and a tenant of its own."""

    def __init__(self, transcript: Transcript, town: Town) -> None:
        self._town = town
        self._variables = Variables({}, {"$tenant": town.tenant})
        self._heard = Heard(self._variables, "op", AUTOMATIC)
        self._socket = Socket(town.url)
        self._read = 0
        self._transcript = transcript
        self._last = -1

    async def run(self) -> None:
        for name in ("bob", "carol"):
            await self._town.token(name)
        await self._renew_token()
        for step in self._transcript.steps:
            await self._step(step)
        self._hear()
        self._heard.check_nothing_left()
        await self._socket.drop()

    async def _renew_token(self) -> None:
        self._variables.bound["$token"] = await self._town.token("alice")

    async def _step(self, step: Json) -> None:
        match step:
            case {"event": _} | {"application": _} | {"time": _} | {"optional": True}:
                return
            case {"connection": "opened"}:
                await self._socket.open()
            case {"connection": "lost"}:
                await self._socket.drop()
            case {"connection": {"closed": code}}:
                assert await closed_with(self._socket) == code
            case {"reconnect": _}:
                await self._renew_token()
            case {"client": frame}:
                self._socket.tell(self._variables.fill(frame))
            case {"server": frame}:
                await self._expect(frame)
            case {"elsewhere": what}:
                await self._request(**what)
            case _:
                raise AssertionError(step)

    async def _expect(self, frame: Json) -> None:
        """Wait for a frame, which comes after those that the transcript has before it."""
        found: list[Json] = []

        def has_come() -> bool:
            self._hear()
            found.extend(filter(None, [self._heard.take(frame)]))
            return bool(found)

        await self._socket.until(has_come)
        if frame["op"] in IN_ORDER:
            [place] = [at for at, one in enumerate(self._socket.raw) if one is found[0]]
            assert place > self._last, f"too early: {found[0]}"
            self._last = place

    def _hear(self) -> None:
        self._heard.unnamed += self._socket.raw[self._read :]
        self._read = len(self._socket.raw)

    async def _request(
        self, request: str, body: Json | None = None, answer: Json | None = None, **who: str
    ) -> None:
        method, path = self._variables.fill(request).split(" ")
        token = (
            await self._town.tenant_key()
            if who["as"] == "tenant"
            else await self._town.token(who["as"])
        )
        got = await self._town.http.request(
            method,
            quote(path),
            json=self._variables.fill(body),
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": secrets.token_hex(8)},
        )
        assert got.is_success, got.text
        if answer is not None:
            assert self._variables.matches(answer, got.json()), got.text


@pytest.mark.parametrize("transcript", transcripts("server"), ids=lambda one: one.transcript)
async def test_the_server_replays(server: ServerProcess, transcript: Transcript) -> None:
    name = f"spec-{re.sub('[^a-z]', '-', transcript.transcript)}"
    async with Town(server.url, server.root_key, tenant=name) as town:
        await Replay(transcript, town).run()
