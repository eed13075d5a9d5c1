# SPDX-License-Identifier: Apache-2.0
"""Describes the connections of a user for the operator and the tenant, in all processes."""

from contextlib import suppress
from typing import Final

import msgspec

from tidings.gateway.client_connection import LocalConnection
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.model.ids import UserKey
from tidings.ports.delivery import ConnectionDirectory, GatewayQuestions, RegistryUnavailable
from tidings.ports.processes import Connections, ConnectionState
from tidings.ports.world import Clock

SUBJECT: Final = "connections"
"""Subject of the question to a gateway about the connections of a user."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ConnectionState]).decode


class OwnConnections:
    """Describes the connections of users to this process."""

    def __init__(self, hub: Hub, clock: Clock, process: str) -> None:
        self._hub = hub
        self._clock = clock
        self._process = process

    def of(self, user: UserKey) -> list[ConnectionState]:
        """Return the user's open connections."""
        return [
            self._describe(connection)
            for connection in self._hub.of(user)
            if connection.conversation.state is State.OPEN
        ]

    def answer(self, user: bytes) -> bytes:
        """Answer another process that asks for the connections of a user."""
        return _encode(self.of(UserKey(user.decode())))

    def _describe(self, connection: LocalConnection) -> ConnectionState:
        conversation, progress = connection.conversation, connection.progress
        # Connections keep times of a monotonic clock.
        offset = self._clock.now() - connection.now()
        received_at = conversation.received_at
        return ConnectionState(
            connection=conversation.connection,
            process=self._process,
            device=conversation.device or "",
            address=connection.address,
            client=conversation.client,
            since=conversation.opened_at + offset,
            is_away=conversation.is_away,
            is_by_heads=conversation.is_by_heads,
            chats=len(progress.chats()) - len(progress.unfollowed),
            behind=len(progress.behind()),
            unacknowledged=progress.unacknowledged,
            window=progress.window,
            pending_bytes=connection.pending_bytes,
            received_at=None if received_at is None else received_at + offset,
            used_at=conversation.used_at + offset,
        )


class RemoteConnections:
    """Asks the other gateways for the connections of users."""

    def __init__(
        self, registry: ConnectionDirectory, questions: GatewayQuestions, own: str
    ) -> None:
        """Set up the questions; `own` is the name of this process, which is not asked."""
        self._registry = registry
        self._questions = questions
        self._own = own

    async def of(self, user: UserKey) -> tuple[list[ConnectionState], bool]:
        """Return the user's connections to other gateways, and whether all of them gave an answer
        that this version understands."""
        try:
            found = await self._registry.find([user])
        except RegistryUnavailable:
            return [], False
        gateways = {address.gateway for address in found.get(user, ())} - {self._own}
        if not gateways:
            return [], True
        answers = await self._questions.ask(SUBJECT, user.encode(), gateways)
        states: list[ConnectionState] = []
        understood = set[str]()
        for gateway, answer in answers.items():
            with suppress(msgspec.MsgspecError):  # an answer of another version
                states += _decode(answer)
                understood.add(gateway)
        return states, understood >= gateways


class AllConnections:
    """Describes the connections of users to this process and to other gateways."""

    def __init__(self, local: OwnConnections, remote: RemoteConnections | None) -> None:
        """Set up the description; `remote` is None in a deployment of one process."""
        self._local = local
        self._remote = remote

    async def of(self, user: UserKey) -> tuple[list[ConnectionState], bool]:
        states, is_complete = self._local.of(user), True
        if self._remote is not None:
            others, is_complete = await self._remote.of(user)
            states += others
        return sorted(states, key=lambda state: (state.since, state.connection)), is_complete


_conforms: type[Connections] = AllConnections
