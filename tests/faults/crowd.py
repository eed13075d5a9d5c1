# SPDX-License-Identifier: Apache-2.0
"""The people of a fault run: who is in which chat, with which devices, and who is not."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tests.faults.history import History, Seen, View, seen
from tests.support.device import Device
from tests.support.people import Person, Town
from tests.support.waiting import NotInTime

PEOPLE: Final = 8
PEOPLE_WITH_TWO_DEVICES: Final = 4
PAIRS: Final = ((0, 1), (2, 3), (4, 5), (6, 7), (0, 2))
TOKEN_SECONDS: Final = 86_400
CATCH_UP_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Everyone and everything that takes part."""

    people: list[Person]
    outsider: Person
    chats: dict[str, list[Person]]
    """Chats with their members."""
    devices: list[tuple[Person, Device]]

    def chats_of(self, person: Person) -> list[str]:
        """The chats somebody is in."""
        return [chat for chat, members in self.chats.items() if person in members]

    async def connect(self) -> None:
        """Bring all devices online."""
        async with asyncio.TaskGroup() as group:
            for _, device in self.devices:
                group.create_task(device.connect())

    async def disconnect(self) -> None:
        """Send all devices home."""
        for _, device in self.devices:
            await device.close()

    async def read_all(self, history: History, seconds: float = CATCH_UP_SECONDS_MAX) -> None:
        """Read every log to its end, wait for every device to have it, and note what they saw."""
        for chat, members in self.chats.items():
            history.final[chat] = [seen(entry) for entry in await members[-1].log(chat)]
        # A device that does not get there is for the checker to find.
        with suppress(TimeoutError, NotInTime):
            async with asyncio.timeout(seconds):
                for person, device in self.devices:
                    await self._caught_up(person, device, history)
        for person, device in self.devices:
            self._note(person, device, history)

    async def _caught_up(self, person: Person, device: Device, history: History) -> None:
        heads = {chat: len(history.final[chat]) for chat in self.chats_of(person)}
        await device.until(
            lambda: all(device.logs.have.get(chat, 0) >= head for chat, head in heads.items()),
            CATCH_UP_SECONDS_MAX,
        )

    def _note(self, person: Person, device: Device, history: History) -> None:
        label = f"{person.user_id}/{device.name}"
        history.reconnects += device.caught_up[1:]
        for chat in self.chats_of(person):
            log = [seen(entry) for entry in device.logs.entries.get(chat, [])]
            history.views.append(View(label, chat, log))
        for chat, entry in _shown_to(device):
            history.glimpses.setdefault(chat, set()).add(entry)


def _shown_to(device: Device) -> list[tuple[str, Seen]]:
    pages = [frame["entries"] for frame in device.raw if frame["op"] == "page"]
    entries = [frame for frame in device.raw if frame["op"] == "entry"]
    return [(entry["chat"], seen(entry)) for entry in chain(entries, *pages)]


async def gather_crowd(town: Town, chance: random.Random) -> Crowd:
    """Make the people, their chats and their devices; nobody is connected yet."""
    people = [await town.user(f"user-{n}", expires_in=TOKEN_SECONDS) for n in range(PEOPLE)]
    outsider = await town.user("outsider", expires_in=TOKEN_SECONDS)
    chats = {await people[0].create_group("Everyone", people[1:]): people}
    for one, other in PAIRS:
        chats[await people[one].create_direct(people[other])] = [people[one], people[other]]
    devices = [
        (person, _device(person, name, chance))
        for number, person in enumerate(people)
        for name in ("phone", "laptop")[: 2 if number < PEOPLE_WITH_TWO_DEVICES else 1]
    ]
    return Crowd(people, outsider, chats, devices)


def _device(person: Person, name: str, chance: random.Random) -> Device:
    return Device(
        person.town.url,
        person.token,
        name,
        reconnects=True,
        pause=lambda: chance.uniform(0.01, 0.2),
    )
