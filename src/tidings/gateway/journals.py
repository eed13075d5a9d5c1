# SPDX-License-Identifier: Apache-2.0
"""Answers what gateways have in memory of a delivery: this gateway, and all others."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from tidings.actions.explain.refusals import RefusalJournal
from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.gateway.journal import DeliveryJournal
from tidings.gateway.tracing import Tracing
from tidings.ports.delivery import ConnectionDirectory, GatewayQuestions, RegistryUnavailable
from tidings.ports.journals import (
    FoundJournals,
    GatewayJournal,
    GatewayTrace,
    JournalQuestion,
    Journals,
    TraceQuestion,
)

SUBJECT: Final = "journal"
TRACE_SUBJECT: Final = "trace"
ALONE: Final = "of this process"

_encode: Final = msgspec.msgpack.encode

T = TypeVar("T")


class LocalJournal:
    """Answers for the gateway of this process."""

    def __init__(
        self,
        hub: Hub,
        journal: DeliveryJournal,
        name: str = ALONE,
        refusals: RefusalJournal | None = None,
    ) -> None:
        self.name = name
        self._tracing = Tracing(hub, journal, name)
        self._refusals = refusals
        self._hub = hub
        self._journal = journal

    async def find(self, question: JournalQuestion) -> FoundJournals:
        """Return the answer of this gateway, which is the only one."""
        return FoundJournals((self.look(question),))

    def look(self, question: JournalQuestion) -> GatewayJournal:
        """Return what this gateway has in memory."""
        connections = tuple(
            self._journal.progress_of(connection, question)
            for connection in self._hub.of(question.user)
            if connection.conversation.state is State.OPEN
        )
        steps = tuple(self._journal.steps(question))
        return GatewayJournal(gateway=self.name, connections=connections, steps=steps)

    def answer(self, asked: bytes) -> bytes:
        """Answer a question from another process."""
        return _encode(self.look(msgspec.msgpack.decode(asked, type=JournalQuestion)))

    async def trace(self, question: TraceQuestion) -> list[GatewayTrace]:
        """Return the trace of this gateway, which is the only one."""
        return [self.look_back(question)]

    def look_back(self, question: TraceQuestion) -> GatewayTrace:
        """Return the last steps that this gateway has in memory."""
        return self._tracing.look(question)

    def answer_trace(self, asked: bytes) -> bytes:
        """Answer another process that asks for a trace, with the requests that were refused
        here."""
        question = msgspec.msgpack.decode(asked, type=TraceQuestion)
        found = self.look_back(question)
        refused = self._refusals.trace(question) if self._refusals is not None else ()
        return _encode(msgspec.structs.replace(found, steps=(*found.steps, *refused)))


class ClusterJournals:
    """Asks the gateways that have a connection of the user; if none has, it asks all of them, for
    connections that have closed."""

    def __init__(
        self, registry: ConnectionDirectory, questions: GatewayQuestions, local: LocalJournal | None
    ) -> None:
        """Set up the questions; `local` is None in a process without the gateway role."""
        self._registry = registry
        self._questions = questions
        self._local = local

    async def find(self, question: JournalQuestion) -> FoundJournals:
        is_known, holders = True, set[str]()
        try:
            found = await self._registry.find([question.user])
            holders = {address.gateway for address in found.get(question.user, ())}
        except RegistryUnavailable:
            is_known = False
        journals: dict[str, GatewayJournal] = {}
        if self._local is not None:
            journals[self._local.name] = self._local.look(question)
        others = holders - journals.keys()
        if others or not holders:
            answers = await self._questions.ask(SUBJECT, _encode(question), others or None)
            journals |= dict(_decoded(answers, GatewayJournal))
        is_certain = is_known and holders <= journals.keys()
        return FoundJournals(tuple(journals[name] for name in sorted(journals)), is_certain)

    async def trace(self, question: TraceQuestion) -> list[GatewayTrace]:
        answers = await self._questions.ask(TRACE_SUBJECT, _encode(question))
        traces = dict(_decoded(answers, GatewayTrace))
        if self._local is not None:
            traces[self._local.name] = self._local.look_back(question)
        return [traces[name] for name in sorted(traces)]


def _decoded(answers: Mapping[str, bytes], kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield the answers, without those of another version that this one does not understand."""
    for gateway, answer in answers.items():
        with suppress(msgspec.MsgspecError):
            yield gateway, msgspec.msgpack.decode(answer, type=kind)


_conform: tuple[type[Journals], ...] = (LocalJournal, ClusterJournals)
