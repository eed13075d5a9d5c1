# SPDX-License-Identifier: Apache-2.0
"""A crowd: pairs of users, each with a live connection, made as they are needed."""

import secrets
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

from tidings.tools.load.rest import CONNECTIONS, LoadStopped, Rest
from tidings.tools.load.talker import Talker, connect
from tidings.tools.load.watch import Watch, side_by_side

TENANT: Final = "bench"
TOKEN_SECONDS: Final = 86_400
GROUP_STEP: Final = 100
"""How many members a group is made with; the others are added one by one."""


class LoadUser(msgspec.Struct, frozen=True):
    """A user who can connect."""

    name: str
    token: str


class Pair(msgspec.Struct, frozen=True):
    """Two users and the chat between them."""

    chat: str
    users: tuple[LoadUser, LoadUser]


class People:
    """Makes users and chats in a tenant of their own. They stay there when the load has ended."""

    def __init__(self, rest: Rest, root_key: str, tenant: str = TENANT) -> None:
        self._rest = rest
        self._root_key = root_key
        self._tenant = tenant
        # New names at each start: an old chat would be sent to its members again at hello.
        self._names = secrets.token_hex(4)

    async def start(self) -> None:
        """Make the tenant, if it is not there yet."""
        await self._rest.call("PUT", f"/v1/tenants/{self._tenant}", self._root_key, {})

    async def users(self, numbers: Sequence[int]) -> list[LoadUser]:
        """Users with these numbers, made if they are new."""
        works = [self.user(f"{self._names}-{number}") for number in numbers]
        return await side_by_side(works, CONNECTIONS)

    async def pairs(self, numbers: Sequence[int]) -> list[Pair]:
        """Pairs with these numbers, each with a direct chat."""
        users = await self.users([side for n in numbers for side in (2 * n, 2 * n + 1)])
        couples = zip(users[::2], users[1::2], strict=True)
        return await side_by_side([self._direct(*couple) for couple in couples], CONNECTIONS)

    async def group(self, users: Sequence[LoadUser]) -> str:
        """A group of all these users; the first owns it."""
        owner, *others = users
        names = [user.name for user in others]
        body = {"type": "group", "name": "Everyone", "members": names[:GROUP_STEP]}
        made = await self._rest.call("POST", "/v1/chats", owner.token, body)
        chat = str(made["chat_id"])
        for name in names[GROUP_STEP:]:
            await self._rest.call("PUT", f"/v1/chats/{chat}/members/{name}", owner.token, {})
        return chat

    async def user(self, name: str) -> LoadUser:
        """The user of this name with a fresh token, made if there is none."""
        body = {"user_id": name, "expires_in": TOKEN_SECONDS}
        path = f"/v1/tenants/{self._tenant}/tokens"
        return LoadUser(
            name, str((await self._rest.call("POST", path, self._root_key, body))["token"])
        )

    async def _direct(self, left: LoadUser, right: LoadUser) -> Pair:
        body = {"type": "direct", "members": [right.name]}
        made = await self._rest.call("POST", "/v1/chats", left.token, body)
        return Pair(str(made["chat_id"]), (left, right))


CONNECTING_MAX: Final = 50
LIVE_SECONDS_MAX: Final = 60.0
SETTLING_SECONDS_MAX: Final = 30.0


class Crowd:
    """Pairs who talk to each other."""

    def __init__(
        self, url: str, root_key: str, tenant: str = TENANT, gateways: Sequence[str] = ()
    ) -> None:
        """Sockets go to the gateways in turn, so that the two of a pair meet across two of them."""
        self.watch = Watch()
        self._gateways = gateways or (url,)
        self._rest = Rest(url)
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
        """The two users of each of so many pairs, neighbours in the list, all live."""
        missing = range(len(self._talkers) // 2, pairs)
        self._talkers += await self._connected(await self._people.pairs(missing))
        return self._talkers[: 2 * pairs]

    async def settle(self, talkers: list[Talker]) -> int:
        """Wait for what is under way; returns how many acknowledged messages never arrived."""
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
            [connect(talker, gateways[n % len(gateways)]) for n, talker in enumerate(made)],
            CONNECTING_MAX,
        )
        if not await self.watch.until(
            lambda: all(talker.is_live for talker in made), LIVE_SECONDS_MAX
        ):
            raise LoadStopped(f"not everyone was live after {LIVE_SECONDS_MAX:.0f} seconds")
        return made


def _unanswered(talkers: list[Talker]) -> int:
    return sum(talker.unanswered for talker in talkers)


def _missing(talkers: list[Talker]) -> int:
    """What one of a pair was promised and the other has not got."""
    return sum(
        abs(one.acknowledged - other.delivered) + abs(other.acknowledged - one.delivered)
        for one, other in zip(talkers[::2], talkers[1::2], strict=True)
    )
