# SPDX-License-Identifier: Apache-2.0
"""Finds out for push whether somebody looks at a device of a user, and whether the device took an
entry."""

from collections.abc import Iterator

from tidings.gateway.conversation import State
from tidings.gateway.hub import ClientConnection, Hub
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

    def took(self, user: UserKey, chat: ChatId, sequence: int, *, is_small: bool) -> bool:
        for connection in self._looking(user):
            position = connection.progress.get(chat)
            if position is not None:
                reached = position.received if is_small else position.sent
                if reached >= sequence:
                    return True
        return False

    def _looking(self, user: UserKey) -> Iterator[ClientConnection]:
        for connection in self._hub.of(user):
            conversation = connection.conversation
            if conversation.state is State.OPEN and not conversation.is_away:
                yield connection


_conforms: type[LookingDevices] = ConnectedDevices
