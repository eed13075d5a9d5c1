# SPDX-License-Identifier: Apache-2.0
"""Load: everyone sends, again and again until it is answered for good, and some send nonsense."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Final

import httpx

from tests.faults.crowd import Crowd
from tests.faults.history import Attempt, History, content_of
from tests.support.client_socket import ConnectionLost, Refused
from tests.support.device import Device
from tests.support.people import Person

THINK_SECONDS_MAX: Final = 0.03
BURST: Final = 5
TOO_LONG: Final = 4_097
LIVE_SECONDS_MAX: Final = 60.0
DOWN_SECONDS: Final = 0.1


class Workload:
    """Senders in closed loops: each waits for its answer before it thinks of something else."""

    def __init__(self, crowd: Crowd, history: History, chance: random.Random) -> None:
        self._crowd = crowd
        self._history = history
        self._chance = chance
        self._numbers = count(1)
        self._is_over = False
        self.acknowledged: list[tuple[str, str]] = []
        """Chat and body of what was acknowledged."""
        self.in_flight = 0
        """Sends over the socket that wait for their answer."""

    async def run(self) -> None:
        """Send until told to stop; what was begun is brought to its end."""
        async with asyncio.TaskGroup() as group:
            for person, device in self._crowd.devices:
                group.create_task(self._repeatedly(partial(self._use, person, device)))
            for person in self._crowd.people[::2]:
                group.create_task(self._repeatedly(partial(self._use_rest, person)))
            group.create_task(self._repeatedly(self._intrude))

    def stop(self) -> None:
        """Begin nothing new."""
        self._is_over = True

    async def _repeatedly(self, act: Callable[[], Awaitable[None]]) -> None:
        while not self._is_over:
            await act()
            await self._think()

    async def _think(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, THINK_SECONDS_MAX))

    # What somebody may do next.

    async def _use(self, person: Person, device: Device) -> None:
        chat = self._chance.choice(self._crowd.chats_of(person))
        luck = self._chance.random()
        if luck < 0.85:
            await self._send(person, device, chat, self._body(person))
        elif luck < 0.92:
            await self._send_burst(person, device, chat)
        elif luck < 0.96:
            await self._send(person, device, chat, self._body(person), padding=TOO_LONG)
        else:
            await self._send_again(person, device)

    async def _use_rest(self, person: Person) -> None:
        chat = self._chance.choice(self._crowd.chats_of(person))
        if self._chance.random() < 0.9:
            await self._post(person, chat, self._body(person))
        elif self.acknowledged:
            await self._react(person)

    async def _intrude(self) -> None:
        """Someone who is not a member tries his luck."""
        outsider = self._crowd.outsider
        chat = self._chance.choice(list(self._crowd.chats))
        await self._post(outsider, chat, self._body(outsider))

    def _body(self, person: Person) -> str:
        return f"{person.user_id}.{next(self._numbers)}"

    # Over the socket.

    async def _send(
        self, person: Person, device: Device, chat: str, body: str, padding: int = 0
    ) -> None:
        while True:
            await device.until(lambda: device.is_live, LIVE_SECONDS_MAX)
            if await self._try(person, device, chat, body, padding):
                return
            await self._think()

    async def _send_burst(self, person: Person, device: Device, chat: str) -> None:
        """Several at once on one connection, none waiting for the other."""
        async with asyncio.TaskGroup() as group:
            for _ in range(BURST):
                group.create_task(self._send(person, device, chat, self._body(person)))

    async def _send_again(self, person: Person, device: Device) -> None:
        """A client that forgot that it was answered."""
        own = [
            sent for sent in self.acknowledged[-200:] if sent[1].startswith(f"{person.user_id}.")
        ]
        if own:
            await self._send(person, device, *self._chance.choice(own))

    async def _try(
        self, person: Person, device: Device, chat: str, body: str, padding: int
    ) -> bool:
        """One attempt; whether it was answered for good."""
        connection = f"{person.user_id}/{device.name}#{len(device.closes)}"
        attempt = self._history.invoke(connection, chat, body)
        self.in_flight += 1
        try:
            answer = await device.send_once(chat, content_of(body, padding), body)
        except Refused as refused:
            return self._declined(attempt, refused.code, is_final=not refused.retryable)
        except (ConnectionLost, TimeoutError) as error:
            return self._declined(attempt, repr(error), is_final=False)
        finally:
            self.in_flight -= 1
        attempt.acknowledge(answer)
        self.acknowledged.append((chat, body))
        return True

    # Over REST.

    async def _post(self, person: Person, chat: str, body: str) -> None:
        message = {"client_message_id": body, "content": content_of(body)}
        is_answered = False
        while not is_answered:
            attempt = self._history.invoke(f"{body}/rest", chat, body)
            try:
                answer = await person.request("POST", f"/v1/chats/{chat}/messages", message)
            except httpx.ConnectError:
                self._history.withdraw(attempt)
                await asyncio.sleep(DOWN_SECONDS)
                continue
            except httpx.TransportError as error:
                self._declined(attempt, repr(error), is_final=False)
                continue
            is_answered = self._posted(attempt, answer)

    def _posted(self, attempt: Attempt, answer: httpx.Response) -> bool:
        if answer.is_success:
            attempt.acknowledge(answer.json())
            self.acknowledged.append((attempt.chat, attempt.body))
            return True
        is_final = answer.status_code not in (429, 503)
        return self._declined(attempt, answer.json()["code"], is_final=is_final)

    async def _react(self, person: Person) -> None:
        """Other writes pass through the same transactions; what becomes of them is not judged."""
        chat, _ = self._chance.choice(self.acknowledged[-200:])
        method = self._chance.choice(["PUT", "DELETE"])
        try:
            await person.request(method, f"/v1/chats/{chat}/messages/2/reactions/👍")
        except httpx.TransportError:
            return

    def _declined(self, attempt: Attempt, code: str, *, is_final: bool) -> bool:
        if is_final:
            attempt.decline(code)
        else:
            attempt.lose(code)
        return is_final
