# SPDX-License-Identifier: Apache-2.0
"""One run: a fleet under load while things go wrong, then at rest, then told everything again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from tests.faults.checker import check
from tests.faults.crowd import TOKEN_SECONDS, Crowd, gather_crowd
from tests.faults.history import History
from tests.faults.many import secrecy
from tests.faults.many.evictions import Evictions, gather_evictions
from tests.faults.many.fleet import ROLES, Fleet
from tests.faults.many.nemesis import Nemesis
from tests.faults.many.offsets import finished_events, read_again_from_the_start
from tests.faults.many.report import Report
from tests.faults.many.roaming import Roamer, RoamingTown, roamer_of
from tests.faults.workload import Workload
from tests.support.cluster import ROOT_KEY
from tests.support.waiting import NotInTime, until

THINK_SECONDS_MAX: Final = 1.0
QUIET_SECONDS_MAX: Final = 60.0
REPLAY_QUIET_SECONDS: Final = 1.5
ROUNDS_MIN: Final = 2
"""Members that are removed while others write, at least."""

Harm = Callable[[Nemesis, list[Roamer]], Awaitable[None]]


class CalmWorkload(Workload):
    """The same load, at a pace that two cores can bear with everything on them."""

    async def _think(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, THINK_SECONDS_MAX))


async def run_fleet(fleet: Fleet, *, seed: int, harm: Harm, replays: bool = True) -> Report:
    """Load the fleet, harm it, let it come to rest, and judge by what clients were told."""
    chance = random.Random(seed)
    history = History()
    async with RoamingTown(fleet.urls, ROOT_KEY, f"town-{seed}", chance) as town:
        crowd = _on_the_move(await gather_crowd(town, chance), town, chance)
        evictions = await gather_evictions(town, crowd.outsider, chance, TOKEN_SECONDS)
        try:
            await crowd.connect()
            await evictions.connect()
            await _under_load(fleet, crowd, evictions, history, chance, harm)
            await evictions.read_all()
            await _at_rest(crowd)
            await crowd.read_all(history)
            report = await _judge(fleet, crowd, evictions, history)
            if replays:
                await _replay(fleet, town, crowd, evictions, report)
        finally:
            await crowd.disconnect()
            await evictions.disconnect()
    return report


def _on_the_move(crowd: Crowd, town: RoamingTown, chance: random.Random) -> Crowd:
    devices = [
        (person, roamer_of(person, town.urls, chance, str(device.name)))
        for person, device in crowd.devices
    ]
    return replace(crowd, devices=list(devices))


def _roamers(crowd: Crowd) -> list[Roamer]:
    return [device for _, device in crowd.devices if isinstance(device, Roamer)]


async def _under_load(
    fleet: Fleet,
    crowd: Crowd,
    evictions: Evictions,
    history: History,
    chance: random.Random,
    harm: Harm,
) -> None:
    workload = CalmWorkload(crowd, history, chance)
    nemesis = Nemesis(fleet, workload, history, chance)
    async with asyncio.TaskGroup() as group:
        group.create_task(workload.run())
        group.create_task(evictions.run())
        await harm(nemesis, [*_roamers(crowd), *evictions.everyone])
        nemesis.heal()
        # A round that met every fault may have taken all the time there was.
        await until(lambda: len(evictions.rounds) >= ROUNDS_MIN)
        workload.stop()
        evictions.stop()


async def _at_rest(crowd: Crowd) -> None:
    """Wait until everyone has everything; who does not get there is for the checker to find."""
    heads = {chat: len(await members[-1].log(chat)) for chat, members in crowd.chats.items()}
    with suppress(TimeoutError, NotInTime):
        async with asyncio.timeout(QUIET_SECONDS_MAX):
            for person, device in crowd.devices:
                own = {chat: heads[chat] for chat in crowd.chats_of(person)}
                await device.until(_has(device.logs.have, own), QUIET_SECONDS_MAX)


def _has(have: dict[str, int], wanted: dict[str, int]) -> Callable[[], bool]:
    return lambda: all(have.get(chat, 0) >= head for chat, head in wanted.items())


async def _judge(fleet: Fleet, crowd: Crowd, evictions: Evictions, history: History) -> Report:
    verdict = check(history)
    roamers = [*_roamers(crowd), *evictions.everyone]
    pauses = fleet.done.pauses
    return Report(
        counts=verdict.counts,
        violations=[
            *verdict.violations,
            *secrecy.overheard(evictions.outsiders),
            *secrecy.after_removal(evictions.guests, evictions.rounds),
            *secrecy.stale(roamers, pauses),
        ],
        done=fleet.done,
        kicks=len(evictions.rounds),
        guest_told=len(secrecy.chats_heard_of(evictions.guests, evictions.rounds)),
        finished_events=await finished_events(fleet),
        pauses_felt=sum(
            len(secrecy.over_pause(roamer, pause)) for roamer in roamers for pause in pauses
        ),
        pushes=sum(len(notices) for notices in _pushed(fleet).values()),
    )


async def _replay(
    fleet: Fleet, town: RoamingTown, crowd: Crowd, evictions: Evictions, report: Report
) -> None:
    """Everything is told again from the first event on, also to devices that know nothing yet."""
    since = 0
    pushed: dict[str, list[Any]] = {}
    replayed_at = 0.0

    async def prepare() -> None:
        nonlocal since, pushed, replayed_at
        late = [
            (evictions.devices, roamer_of(evictions.friend, town.urls, evictions.chance, "tablet")),
            (evictions.guests, roamer_of(evictions.guest, town.urls, evictions.chance, "tablet")),
        ]
        for others, device in late:
            others.append(device)
            await device.connect()
        await _until_old(evictions)
        since, replayed_at, pushed = time.monotonic_ns(), time.time(), _pushed(fleet)

    report.replayed_events = await read_again_from_the_start(fleet, prepare)
    await asyncio.sleep(REPLAY_QUIET_SECONDS)
    roamers = [*_roamers(crowd), *evictions.everyone]
    old = [one for one in evictions.rounds if one.ended < since]
    again = {name: notices[len(pushed[name]) :] for name, notices in _pushed(fleet).items()}
    report.replayed_old = len(secrecy.old_entries(evictions.rounds, replayed_at))
    report.told_again = sum(heard.at > since for one in roamers for heard in one.heard)
    report.violations += [
        *secrecy.overheard(evictions.outsiders),
        *secrecy.after_removal(evictions.guests, evictions.rounds),
        *secrecy.after_replay(evictions.guests, old, since),
        *secrecy.unhidden(roamers, old, since),
        *secrecy.pushed_again(chain(*again.values()), evictions.rounds, replayed_at),
    ]


async def _until_old(evictions: Evictions) -> None:
    """Wait until the first chat is too old for anybody to be called for it."""
    first = evictions.rounds[:1]
    await until(
        lambda: len(secrecy.old_entries(first, time.time())) >= len(first[0].created),
        seconds=2 * secrecy.YOUNG_SECONDS,
    )


def _pushed(fleet: Fleet) -> dict[str, list[Any]]:
    """The notices that each process says it pushed."""
    return {
        name: [
            notice
            for line in fleet.cluster[name].log_lines()
            if line.get("action") == "push"
            for notice in line["notices"]
        ]
        for name in ROLES
    }
