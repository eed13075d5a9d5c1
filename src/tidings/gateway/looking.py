# SPDX-License-Identifier: Apache-2.0
"""Finds out for push whether somebody looks at a device of a user, and whether the device took an
entry."""

from collections.abc import Iterator

from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.model.ids import ChatId, UserKey
from tidings.ports.push import LookingDevices


class ConnectedDevices:
    """The devices that are connected to this process."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def is_looking(self, user: UserKey) -> bool:
        return any(self._looking(user))

    def is_away(self, user: UserKey) -> bool:
        return any(connection.conversation.is_away for connection in self._hub.of(user))

    async def taken_up_to(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        return self.reached(user, chat, is_small=is_small)

    def reached(self, user: UserKey, chat: ChatId, *, is_small: bool) -> int:
        """Return what `taken_up_to` does, at once."""
        positions = (connection.progress.get(chat) for connection in self._looking(user))
        reached = (
            position.received if is_small else position.sent
            for position in positions
            if position is not None
        )
        return max(reached, default=0)

    def _looking(self, user: UserKey) -> Iterator[LocalConnection]:
        for connection in self._hub.of(user):
            conversation = connection.conversation
            if conversation.state is State.OPEN and not conversation.is_away:
                yield connection


_conforms: type[LookingDevices] = ConnectedDevices
