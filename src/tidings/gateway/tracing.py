# SPDX-License-Identifier: Apache-2.0
"""Finds the last steps of delivery to a user or in a chat, in what this gateway has in memory.

Nothing is recorded for a trace. The journal of the gateway has the steps anyway, so a trace costs
nothing while nobody looks at it.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from tidings.gateway.client_connection import ClientConnection
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.gateway.journal import ConnectionStep, DeliveryJournal
from tidings.model.explaining import connection_place
from tidings.model.ids import ChatId, UserKey
from tidings.ports.journals import GatewayTrace, TraceQuestion, TraceStep

TRACE_STEPS_MAX: Final = 200
"""Number of steps that a gateway returns; the newest are returned."""


class Tracing:
    """Looks back at the steps of this gateway."""

    def __init__(self, hub: Hub, journal: DeliveryJournal, gateway: str) -> None:
        self._hub = hub
        self._journal = journal
        self._gateway = gateway

    def look(self, question: TraceQuestion) -> GatewayTrace:
        """Return the newest steps that concern the user or the chat, in order."""
        own = [*islice(self._own_steps(question), TRACE_STEPS_MAX + 1)]
        found = [_told(step) for step in own]
        if question.user is not None:
            found += islice(self._to_user(question, question.user, own), TRACE_STEPS_MAX + 1)
        elif question.chat is not None:
            found += islice(self._in_chat(question, question.chat), TRACE_STEPS_MAX + 1)
        # They were found with the newest first; steps of one moment stay in their order.
        found.reverse()
        steps = sorted(found, key=lambda step: step.at)[-TRACE_STEPS_MAX:]
        is_complete = len(found) <= TRACE_STEPS_MAX
        return GatewayTrace(gateway=self._gateway, steps=tuple(steps), is_complete=is_complete)

    def _own_steps(self, question: TraceQuestion) -> Iterator[ConnectionStep]:
        for step in self._journal.steps_between(question.after, question.until):
            if step.user == question.user or (step.chat and step.chat == question.chat):
                yield step

    def _in_chat(self, question: TraceQuestion, chat: ChatId) -> Iterator[TraceStep]:
        for name, sequence, at in self._journal.arrivals_between(question.after, question.until):
            if name == chat:
                where = f"gateway {self._gateway}"
                yield TraceStep(
                    at=at, what="handed_to_gateway", where=where, chat=chat, sequence=sequence
                )

    def _to_user(
        self, question: TraceQuestion, user: UserKey, own: list[ConnectionStep]
    ) -> Iterator[TraceStep]:
        """Yield the entries that arrived for the user's connections, unless a connection read them
        from the log; then yield the connections that were opened."""
        connections = [
            (one, self._journal.opened_at(one))
            for one in self._hub.of(user)
            if one.conversation.state is State.OPEN
        ]
        for chat, sequence, at in self._journal.arrivals_between(question.after, question.until):
            for connection, opened_at in connections:
                position = connection.progress.get(chat)
                if position is None or sequence <= position.start or at < opened_at:
                    continue
                if not any(step.covers(chat, sequence) for step in own):
                    is_sent = sequence <= position.sent
                    what = "written_to_socket" if is_sent else "handed_to_gateway"
                    yield self._step(connection, user, what, at, chat, sequence)
        for connection, opened_at in connections:
            if question.after < opened_at <= question.until:
                yield self._step(connection, user, "connected", opened_at)

    def _step(
        self,
        connection: ClientConnection,
        user: UserKey,
        what: str,
        at: int,
        chat: ChatId | None = None,
        sequence: int | None = None,
    ) -> TraceStep:
        told = connection.conversation
        where = connection_place(told.device, told.connection)
        return TraceStep(at=at, what=what, where=where, user=user, chat=chat, sequence=sequence)


def _told(step: ConnectionStep) -> TraceStep:
    return TraceStep(
        at=step.at,
        what=step.step,
        where=connection_place(step.device, step.connection),
        user=step.user,
        chat=step.chat,
        sequence=step.last or None,
    )
