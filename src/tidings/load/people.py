# SPDX-License-Identifier: Apache-2.0
"""The people of a load: users of one tenant, their tokens, their chats."""

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.load.rest import CONNECTIONS, Rest
from tidings.load.side_by_side import side_by_side

TENANT: Final = "bench"
TOKEN_SECONDS: Final = 86_400
GROUP_STEP: Final = 100
"""How many members a group is made with; the others are added one by one."""


class User(msgspec.Struct, frozen=True):
    """A user who can connect."""

    name: str
    token: str


class Pair(msgspec.Struct, frozen=True):
    """Two users and the chat between them."""

    chat: str
    users: tuple[User, User]


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

    async def users(self, numbers: Sequence[int]) -> list[User]:
        """Users with these numbers, made if they are new."""
        works = [self.user(f"{self._names}-{number}") for number in numbers]
        return await side_by_side(works, CONNECTIONS)

    async def pairs(self, numbers: Sequence[int]) -> list[Pair]:
        """Pairs with these numbers, each with a direct chat."""
        users = await self.users([side for n in numbers for side in (2 * n, 2 * n + 1)])
        couples = zip(users[::2], users[1::2], strict=True)
        return await side_by_side([self._direct(*couple) for couple in couples], CONNECTIONS)

    async def group(self, users: Sequence[User]) -> str:
        """A group of all these users; the first owns it."""
        owner, *others = users
        names = [user.name for user in others]
        body = {"type": "group", "name": "Everyone", "members": names[:GROUP_STEP]}
        made = await self._rest.call("POST", "/v1/chats", owner.token, body)
        chat = str(made["chat_id"])
        for name in names[GROUP_STEP:]:
            await self._rest.call("PUT", f"/v1/chats/{chat}/members/{name}", owner.token, {})
        return chat

    async def user(self, name: str) -> User:
        """The user of this name with a fresh token, made if there is none."""
        body = {"user_id": name, "expires_in": TOKEN_SECONDS}
        path = f"/v1/tenants/{self._tenant}/tokens"
        return User(name, str((await self._rest.call("POST", path, self._root_key, body))["token"]))

    async def _direct(self, left: User, right: User) -> Pair:
        body = {"type": "direct", "members": [right.name]}
        made = await self._rest.call("POST", "/v1/chats", left.token, body)
        return Pair(str(made["chat_id"]), (left, right))
