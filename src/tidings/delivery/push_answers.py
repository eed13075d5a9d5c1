# SPDX-License-Identifier: Apache-2.0
"""Asks all processes that send push notices what became of one, and answers such questions."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from tidings.actions.push.journal import PushJournal
from tidings.ports.delivery import GatewayQuestions
from tidings.ports.journals import JournalQuestion, PushJournals, PushRecord

SUBJECT: Final = "pushes"
PUSHERS: Final = "pushers"
"""The name under which all processes that send push notices can be asked."""

_encode: Final = msgspec.msgpack.encode
_decode: Final = msgspec.msgpack.decode


def answer_with(journal: PushJournal) -> Callable[[bytes], bytes]:
    """Return a function that answers the questions of other processes from a journal."""

    def answer(asked: bytes) -> bytes:
        return _encode(journal.look(_decode(asked, type=JournalQuestion)))

    return answer


class ClusterPushes:
    """Asks this process, and all others that send push notices."""

    def __init__(self, name: str, own: PushJournal, questions: GatewayQuestions) -> None:
        self._name = name
        self._own = own
        self._questions = questions

    async def find(self, question: JournalQuestion) -> list[PushRecord]:
        """Return what the processes know that answer within a second.

        An answer of another version that this one does not understand is left out.
        """
        answers = await self._questions.ask(SUBJECT, _encode(question), [PUSHERS])
        found = self._own.look(question)
        for process, answer in sorted(answers.items()):
            with suppress(msgspec.MsgspecError):
                if process != self._name:
                    found += _decode(answer, type=list[PushRecord])
        return found


_conforms: type[PushJournals] = ClusterPushes
