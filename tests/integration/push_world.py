# SPDX-License-Identifier: Apache-2.0
"""A server with push services in memory, as a single process or as a worker, for suites of push.

For suites: `from tests.integration.push_world import is_worker as is_worker, ...`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.rest_world import Actor, Rest, open_rest
from tests.support.engine import some_engine
from tests.support.push import FakePush, with_fake_providers
from tests.support.waiting import until
from tidings.assembly import Core
from tidings.assembly.push_queue import NoDevices, make_notices, run_own_events
from tidings.delivery.operator_push import OperatorPush
from tidings.delivery.push_notices import OwnArrivals, PushNotifier, PushOffers
from tidings.delivery.push_queue import PushQueue
from tidings.model.ids import ChatId, UserKey
from tidings.model.push_rules import Reason
from tidings.ports.bus import Appended
from tidings.ports.push import LookingDevices, PushNotice
from tidings.tasks import Tasks

PHONE = "/v1/me/devices/phone/push"
_numbers = count(1)


@dataclass
class Eyes:
    """Who looks at a device, and what the devices took."""

    looking: set[UserKey] = field(default_factory=set)
    away: set[UserKey] = field(default_factory=set)
    taken: set[tuple[UserKey, int]] = field(default_factory=set)

    def is_looking(self, user: UserKey) -> bool:
        return user in self.looking

    def is_away(self, user: UserKey) -> bool:
        return user in self.away

    async def taken_up_to(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        return max((sequence for one, sequence in self.taken if one == user), default=0)


class HeldQueue(PushQueue):
    """A queue that a test can hold, so that something happens before a notice is made."""

    hold: asyncio.Event | None = None

    async def _put(self, key: tuple[UserKey, ChatId]) -> None:
        if self.hold is not None:
            await self.hold.wait()
        await super()._put(key)


@dataclass
class Pushing:
    """A server with a queue that waits no time, and the push services that it uses."""

    rest: Rest
    fake: FakePush
    queue: HeldQueue
    eyes: Eyes
    is_worker: bool
    tenant: str = ""

    def key(self, name: str) -> UserKey:
        return UserKey(f"{self.tenant}:{name}")

    async def people(self, content: str = "none") -> tuple[Actor, Actor, str]:
        """Ann and Bob, who has a phone, and their chat, in a new tenant."""
        self.tenant = f"t{next(_numbers)}"
        backend = await self.rest.tenant(self.tenant)
        settings = {"fcm": {"key": "k"}, "content": content}
        await backend.ok("PUT", f"/v1/tenants/{self.tenant}/push", settings)
        ann, bob = [await self.rest.user(name, self.tenant) for name in ("ann", "bob")]
        await register(bob, f"{self.tenant} bob")
        self.fake.sent.clear()
        self.queue.held_back.clear()
        return ann, bob, await ann.group("bob")

    async def pushed(self, number: int = 1) -> list[PushNotice]:
        """The notices, once there are this many."""
        await until(lambda: len(self.fake.sent) >= number, describe=lambda: self.queue.held_back)
        assert len(self.fake.sent) == number
        return [notice for _, notice in self.fake.sent]

    async def held_back(self, reason: Reason, number: int = 1) -> None:
        """Wait until nobody was notified for this reason."""
        await until(
            lambda: self.queue.held_back[reason] >= number,
            describe=lambda: (self.queue.held_back, self.fake.sent),
        )
        assert self.fake.sent == []


async def register(user: Actor, token: str, **more: Any) -> None:
    body = {"provider": "fcm", "token": token, "app": "news", **more}
    await user.ok("PUT", PHONE, body)


@pytest.fixture(scope="module", params=["single process", "worker"])
def is_worker(request: pytest.FixtureRequest) -> bool:
    """Whether the server is one of several processes."""
    return bool(request.param == "worker")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, is_worker: bool
) -> AsyncIterator[Rest]:
    def endpoint() -> str:
        return str(request.getfixturevalue("dynamodb_endpoint"))

    engine = "dynamodb" if is_worker else "sqlite"
    async with some_engine(engine, endpoint, streams=False) as settings:
        folder = tmp_path_factory.mktemp("rest")
        async with open_rest(folder, settings=settings) as opened:
            yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def pushing(rest: Rest, is_worker: bool) -> AsyncIterator[Pushing]:
    core, eyes = rest.core, Eyes()
    devices: LookingDevices = NoDevices() if is_worker else eyes
    fake = with_fake_providers(core.push)
    async with AsyncExitStack() as stack:
        make = make_notices(core)
        send = OperatorPush(core.push.send, None, make.is_wanted).send
        journal = core.push.send.journal
        queue = HeldQueue(make, send, devices, journal, wait_seconds=0.01, gather_seconds=0.01)
        queue.start()
        stack.push_async_callback(queue.close)
        offers = PushOffers(queue, core.push.send, core.blocks, devices, journal)
        if is_worker:
            work(core, offers, eyes, stack)
        else:
            arrivals = OwnArrivals(offers, core.bus, core.clock)
            arrivals.start()
            stack.push_async_callback(arrivals.close)
        run_own_events(core, stack)
        yield Pushing(rest, fake, queue, eyes, is_worker)


def work(core: Core, offers: PushOffers, eyes: Eyes, stack: AsyncExitStack) -> None:
    """Offer messages as a worker does that has delivered them to gateways."""
    notifier, tasks = PushNotifier(offers, core.clock), Tasks("worker")

    ended = asyncio.Event()  # the bus lasts longer than one test

    def on_appended(event: Appended) -> None:
        if ended.is_set():
            return
        run = [event.entry], eyes.looking - eyes.away, event.state.is_small
        tasks.start(notifier.notify([run], event.state.members))

    core.bus.subscribe(on_appended, Appended)
    stack.callback(ended.set)
    stack.push_async_callback(tasks.close)
