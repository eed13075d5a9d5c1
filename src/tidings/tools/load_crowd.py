# SPDX-License-Identifier: Apache-2.0
"""Create and connect the users and chats of a load test, when they are needed."""

import asyncio
import resource
import secrets
import ssl
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from tidings.tools.load_talker import CONNECTIONS, LoadStopped, Rest, Talker, connect

T = TypeVar("T")

TENANT: Final = "bench"
TOKEN_SECONDS: Final = 86_400
GROUP_STEP: Final = 100
"""Maximum number of members in the request that creates a group; others are added one by one."""
SPARE: Final = 200
"""Number of open files that are not connections."""
TICK_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.02
CONNECTING_MAX: Final = 50
LIVE_SECONDS_MAX: Final = 60.0
SETTLING_SECONDS_MAX: Final = 30.0


async def side_by_side(works: Iterable[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Run the coroutines, at most `at_once` at the same time; return their results in order.

    If a coroutine fails, its own error is raised, not an exception group.
    """
    turn = asyncio.Semaphore(at_once)

    async def in_turn(work: Coroutine[Any, Any, T]) -> T:
        async with turn:
            return await work

    waiting = list(works)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_turn(work)) for work in waiting]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        for work in waiting:
            work.close()  # prevents a warning about works that were never started
    return [task.result() for task in tasks]


def allow_connections(count: int) -> None:
    """Raise the limit of open files, so that a process can open `count` connections.

    The children of this process inherit the limit.

    Raises:
        LoadStopped: The system does not allow so many open files.
    """
    needed = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else max(hard, needed)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
    except (ValueError, PermissionError):
        raise LoadStopped(
            f"{needed} open files are needed and {hard} are allowed: raise `ulimit -n`"
        ) from None


class Watch:
    """Waits for a time or a condition, and aborts the wait when a problem is reported."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._has_stopped = asyncio.Event()

    def stopped(self, reason: str) -> None:
        """Abort every wait with this reason; only the first reason is kept."""
        if self._reason is None:
            self._reason = reason
            self._has_stopped.set()

    async def wait(self, seconds: float, tick: Callable[[], None] | None = None) -> None:
        """Wait for this many seconds; `tick` is called about twice per second.

        Raises:
            LoadStopped: A problem was reported.
        """
        end = perf_counter() + seconds
        while (left := end - perf_counter()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_stopped.wait(), min(left, TICK_SECONDS))
            if self._reason is not None:
                raise LoadStopped(self._reason)
            if tick is not None:
                tick()

    async def until(self, condition: Callable[[], bool], seconds_max: float) -> bool:
        """Wait until the condition is true; return False if it is not after `seconds_max`.

        Raises:
            LoadStopped: A problem was reported.
        """
        end = perf_counter() + seconds_max
        while not condition():
            if perf_counter() > end:
                return False
            await self.wait(LOOK_SECONDS)
        return True


class LoadUser(msgspec.Struct, frozen=True):
    """A user, with a token to connect with."""

    name: str
    token: str


class Pair(msgspec.Struct, frozen=True):
    """Two users and the chat between them."""

    chat: str
    users: tuple[LoadUser, LoadUser]


class People:
    """Creates users and chats in a separate tenant. They are not deleted after the load test."""

    def __init__(self, rest: Rest, root_key: str, tenant: str = TENANT) -> None:
        self._rest = rest
        self._root_key = root_key
        self._tenant = tenant
        # Use new names at each start: in an old chat, hello would first send all its entries.
        self._names = secrets.token_hex(4)

    async def start(self) -> None:
        """Create the tenant if it does not exist."""
        await self._rest.call("PUT", f"/v1/tenants/{self._tenant}", self._root_key, {})

    async def users(self, numbers: Sequence[int]) -> list[LoadUser]:
        """Return the users with these numbers; create those that do not exist."""
        works = [self.user(f"{self._names}-{number}") for number in numbers]
        return await side_by_side(works, CONNECTIONS)

    async def pairs(self, numbers: Sequence[int]) -> list[Pair]:
        """Create pairs with these numbers, each with a direct chat."""
        users = await self.users([side for n in numbers for side in (2 * n, 2 * n + 1)])
        couples = zip(users[::2], users[1::2], strict=True)
        return await side_by_side([self._direct(*couple) for couple in couples], CONNECTIONS)

    async def group(self, users: Sequence[LoadUser]) -> str:
        """Create a group of all these users, owned by the first; return its id."""
        owner, *others = users
        names = [user.name for user in others]
        body = {"type": "group", "name": "Everyone", "members": names[:GROUP_STEP]}
        made = await self._rest.call("POST", "/v1/chats", owner.token, body)
        chat = str(made["chat_id"])
        for name in names[GROUP_STEP:]:
            await self._rest.call("PUT", f"/v1/chats/{chat}/members/{name}", owner.token, {})
        return chat

    async def user(self, name: str) -> LoadUser:
        """Create the user if necessary, and return the user with a new token."""
        body = {"user_id": name, "expires_in": TOKEN_SECONDS}
        path = f"/v1/tenants/{self._tenant}/tokens"
        return LoadUser(
            name, str((await self._rest.call("POST", path, self._root_key, body))["token"])
        )

    async def _direct(self, left: LoadUser, right: LoadUser) -> Pair:
        body = {"type": "direct", "members": [right.name]}
        made = await self._rest.call("POST", "/v1/chats", left.token, body)
        return Pair(str(made["chat_id"]), (left, right))


class Crowd:
    """Pairs of connected users who send messages to each other."""

    def __init__(
        self,
        url: str,
        root_key: str,
        tenant: str = TENANT,
        gateways: Sequence[str] = (),
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """Create a crowd without users.

        Users connect to the gateways in turn, so that the users of a pair are on two gateways.
        `trust` has the trusted certificates, by default those of the system.
        """
        self._trust = trust
        self.watch = Watch()
        self._gateways = gateways or (url,)
        self._rest = Rest(url, trust)
        self._people = People(self._rest, root_key, tenant)
        self._talkers: list[Talker] = []

    async def __aenter__(self) -> Self:
        try:
            await self._people.start()
        except BaseException:
            self._rest.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for talker in self._talkers:
            talker.close()
        self._rest.close()

    async def talkers(self, pairs: int) -> list[Talker]:
        """Return the users of this many pairs, all connected and live.

        The two users of a pair are adjacent in the list.
        """
        missing = range(len(self._talkers) // 2, pairs)
        self._talkers += await self._connected(await self._people.pairs(missing))
        return self._talkers[: 2 * pairs]

    async def settle(self, talkers: list[Talker]) -> int:
        """Wait for pending answers and deliveries; return the number of messages that were lost.

        A message is lost if it was acknowledged but not delivered.
        """
        await self.watch.until(
            lambda: not _unanswered(talkers) and not _missing(talkers), SETTLING_SECONDS_MAX
        )
        return _missing(talkers)

    async def _connected(self, pairs: list[Pair]) -> list[Talker]:
        made = [
            Talker(pair.chat, user.token, f"load-{user.name}", self.watch.stopped)
            for pair in pairs
            for user in pair.users
        ]
        gateways = self._gateways
        await side_by_side(
            [
                connect(talker, gateways[n % len(gateways)], trust=self._trust)
                for n, talker in enumerate(made)
            ],
            CONNECTING_MAX,
        )
        if not await self.watch.until(
            lambda: all(talker.is_live for talker in made), LIVE_SECONDS_MAX
        ):
            raise LoadStopped(f"not all users were live after {LIVE_SECONDS_MAX:.0f} seconds")
        return made


def _unanswered(talkers: list[Talker]) -> int:
    return sum(talker.unanswered for talker in talkers)


def _missing(talkers: list[Talker]) -> int:
    """Return the number of acknowledged messages that the other user of a pair has not received."""
    return sum(
        abs(left.acknowledged - right.delivered) + abs(right.acknowledged - left.delivered)
        for left, right in zip(talkers[::2], talkers[1::2], strict=True)
    )
