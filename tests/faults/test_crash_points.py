# SPDX-License-Identifier: Apache-2.0
"""The crash matrix: the server dies at each place where a pause matters, and a retry finds out."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.faults.checker import check
from tests.faults.history import History, View, content_of, seen
from tests.support.client_socket import ConnectionLost
from tests.support.device import CANNOT_CONNECT, Device
from tests.support.people import Town
from tests.support.server import NO_LIMITS, ServerProcess
from tidings.ports.world import PLACES, FailpointName

# In the last two the first visits are the sweeper's, which commits twice when the server starts.
MATRIX: Final[Sequence[tuple[FailpointName, int]]] = (
    ("between_key_and_entry", 1),
    ("between_key_and_entry", 2),
    ("between_key_and_entry", 5),
    ("before_commit", 3),
    ("before_commit", 4),
    ("before_commit", 7),
    ("after_commit_before_answer", 3),
    ("after_commit_before_answer", 4),
    ("after_commit_before_answer", 7),
)
DIED_ON_PURPOSE: Final = 137


class Sender:
    """Sends one message after the other; one that got no answer is the first to go next time."""

    def __init__(self, device: Device, chat: str, history: History) -> None:
        self._device = device
        self._chat = chat
        self._history = history
        self._numbers = count(1)
        self._unanswered: str | None = None

    @property
    def is_unanswered_there(self) -> bool:
        """Whether the message that got no answer was stored all the same, as the device sees it."""
        log = self._device.logs.entries[self._chat]
        return self._unanswered in {seen(entry).what for entry in log}

    async def send(self) -> None:
        """Send; raises ConnectionLost if the server dies of it."""
        body = self._unanswered = self._unanswered or f"body-{next(self._numbers)}"
        process = f"{self._device.name}#{len(self._device.closes)}"
        attempt = self._history.invoke(process, self._chat, body)
        try:
            answer = await self._device.send_once(self._chat, content_of(body), body)
        except ConnectionLost:
            attempt.lose("the server died")
            raise
        attempt.acknowledge(answer)
        self._unanswered = None


@pytest.mark.slow
async def test_a_retry_after_any_crash_yields_one_message(tmp_path: Path) -> None:
    history = History()
    was_stored: dict[FailpointName, set[bool]] = {place: set() for place in PLACES}
    async with (
        ServerProcess(tmp_path / "data", environment=NO_LIMITS) as server,
        Town(server.url, server.root_key) as town,
    ):
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        sender = Sender(phone := ann.device("phone"), chat, history)
        laptop = bob.device("laptop")
        await server.terminate()
        died_at: FailpointName | None = None
        for place, visit in MATRIX:
            server.environment["TIDINGS_FAILPOINTS"] = f"{place}:{visit}"
            await server.start()
            with suppress(ConnectionLost, *CANNOT_CONNECT):
                await laptop.connect()
                await phone.connect()
                if died_at is not None:
                    was_stored[died_at].add(sender.is_unanswered_there)
                while True:
                    await sender.send()
            assert await server.exited() == DIED_ON_PURPOSE
            await phone.drop()
            await laptop.drop()
            died_at = place
        del server.environment["TIDINGS_FAILPOINTS"]
        await server.start()
        async with phone, laptop:
            await sender.send()
            history.final[chat] = [seen(entry) for entry in await bob.log(chat)]
            for device in (phone, laptop):
                await device.until(partial(has_all, device, history))
                log = [seen(entry) for entry in device.logs.entries[chat]]
                history.views.append(View(str(device.name), chat, log))
    assert check(history).violations == []
    assert True in was_stored["after_commit_before_answer"]
    assert False in was_stored["before_commit"]
    assert False in was_stored["between_key_and_entry"]


def has_all(device: Device, history: History) -> bool:
    return all(device.logs.have[chat] == len(log) for chat, log in history.final.items())
