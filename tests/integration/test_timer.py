# SPDX-License-Identifier: Apache-2.0
"""Scheduled messages and processes that die: each is sent once, whoever continues."""

import itertools
from collections import Counter
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import force_setattr, replace

from tests.integration.engines import engine as engine
from tests.integration.rest_world import Actor, Rest
from tests.integration.test_rest_scheduled import MINUTE, body, contents, pass_time, schedule
from tests.support.waiting import until
from tidings.actions.chat.scheduling import SendScheduled
from tidings.assembly.system import back_off
from tidings.delivery.timer import Timer
from tidings.model.ids import user_key
from tidings.ports.due import LEASE_MS, due_of
from tidings.stores.dynamodb.inbox.due import DynamoDueItems

pytestmark = pytest.mark.asyncio(loop_scope="module")

Talk = tuple[str, Actor, Actor]


@pytest_asyncio.fixture(loop_scope="module")
async def talk(rest: Rest) -> Talk:
    """A fresh group of two with one message, at sequence 2."""
    ann, ben = await rest.users("ann", "ben")
    chat = await ann.group("ben")
    await ann.send(chat, "m1")
    return chat, ann, ben


class Killed(Exception):
    """The process has died."""


class Mortal:
    """An adapter whose process dies after so many steps: before a call, or after it."""

    def __init__(self, adapter: Any, steps: list[int]) -> None:
        self._adapter = adapter
        self._steps = steps

    def step(self) -> None:
        self._steps[0] -= 1
        if self._steps[0] < 0:
            raise Killed

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._adapter, name)

        async def stepped(*given: Any) -> Any:
            self.step()
            answer = await call(*given)
            self.step()
            return answer

        return stepped


async def die_after(rest: Rest, steps: int, name: str) -> bool:
    """Send a message in a process that dies after so many steps; False if it got to the end."""
    message = await rest.core.store.scheduled.get(user_key("acme", "ann"), name)
    work = rest.core.due_work["message"]
    assert message is not None
    assert isinstance(work, SendScheduled)
    left = [steps]
    mortal: Any = Mortal(work.scheduled, left)
    items: Any = Mortal(rest.core.store.due, left)
    try:
        await replace(work, scheduled=mortal).do(due_of(message))
        await items.drop(due_of(message))
    except Killed:
        return True
    return False


async def test_a_process_may_die_at_every_step(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    sent = 0
    for steps in itertools.count():
        name = await schedule(rest, ann, chat, f"s{steps}")
        cancelled = await schedule(rest, ann, chat, f"c{steps}", content="cancelled")
        rest.clock.time += MINUTE
        has_died = await die_after(rest, steps, name)
        await die_after(rest, steps, cancelled)
        answer = await ann.call("DELETE", f"/v1/scheduled/{cancelled}")
        assert answer.status_code in (204, 409)
        await pass_time(rest, 0)
        await pass_time(rest, 1)
        sent += 1 + (answer.status_code == 409)
        assert len(await contents(ben, chat)) == sent, steps
        if not has_died:
            break
    assert steps == 6, "fire, finish and drop, before and after each"
    found = Counter(content for _, content in await contents(ben, chat))
    assert found["later"] == 7


async def test_a_process_may_die_while_it_schedules(rest: Rest, talk: Talk) -> None:
    """Who got no answer asks again, and the message is sent once."""
    chat, ann, ben = talk
    scheduling = rest.core.verbs.scheduling
    for steps in range(4):
        left = [steps]
        mortal: Any = replace(
            scheduling,
            due=Mortal(scheduling.due, left),
            scheduled=Mortal(scheduling.scheduled, left),
        )
        verbs: Any = rest.core.verbs
        force_setattr(verbs, "scheduling", mortal)
        try:
            answer = await ann.call(
                "POST",
                f"/v1/chats/{chat}/messages",
                body(rest, f"d{steps}"),
            )
        finally:
            force_setattr(verbs, "scheduling", scheduling)
        assert answer.status_code == 500, steps
        await schedule(rest, ann, chat, f"d{steps}")
        await pass_time(rest, 1)
        await pass_time(rest, 2)
        assert len(await contents(ben, chat)) == steps + 1


async def test_two_processes_share_the_work(rest: Rest, talk: Talk) -> None:
    chat, ann, ben = talk
    if not isinstance(rest.core.store.due, DynamoDueItems):
        return  # only one process uses the file
    timers = [
        Timer(
            due=DynamoDueItems(rest.core.store.due._dynamo),
            kinds=rest.core.due_work,
            clock=rest.clock,
            holder=name,
            back_off=back_off,
        )
        for name in ("one", "two")
    ]

    async def look(*some: Timer) -> None:
        for timer in some:
            await timer.look()
        await until(lambda: not any(timer.depths()["held"] for timer in some))

    await schedule(rest, ann, chat, "first")  # before it, nobody leases anything
    for _ in range(3):
        rest.clock.time += LEASE_MS // 2
        await look(*timers)
    for number in range(40):
        await schedule(rest, ann, chat, f"p{number}", 0.05)
    rest.clock.time += MINUTE // 20
    before = [timer.done for timer in timers]
    await look(*timers)
    done = [timer.done - old for timer, old in zip(timers, before, strict=True)]
    assert sum(done) == 40
    assert min(done) > 0
    for number in range(40, 80):
        await schedule(rest, ann, chat, f"p{number}", 0.05)
    # The first dies with its leases; the second gets everything when they are over.
    rest.clock.time += LEASE_MS
    await look(timers[1])
    assert len(await contents(ben, chat)) == 80
    await timers[1].close()
