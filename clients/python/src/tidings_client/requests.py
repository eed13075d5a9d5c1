# SPDX-License-Identifier: Apache-2.0
"""Requests on one connection that wait for their answers. No I/O."""

from collections.abc import Callable
from typing import Final

import msgspec

from tidings_client.errors import TidingsError
from tidings_client.frames import Page
from tidings_client.log_view import Want
from tidings_client.saved import Outgoing

ANSWER_SECONDS_MAX: Final = 30.0
"""A request that has waited longer will not be answered: the connection is no good."""


class Question(msgspec.Struct, eq=False):
    """A page that the application asked for; it is asked for until there is an answer."""

    chat: str
    after: int | None
    before: int | None
    limit: int
    answer: Callable[[Page | TidingsError], None]


Request = Outgoing | Want | Question


class Requests:
    """What was asked, by the id it was asked with, oldest first."""

    def __init__(self) -> None:
        self._serial = 0
        self._asked: dict[str, tuple[Request, float]] = {}
        self.fetches = 0
        """How many parts of logs are on their way that the client itself wanted."""

    def ask(self, request: Request, now: float) -> str:
        """A new id for a request that is about to be sent."""
        self._serial += 1
        name = f"{self._serial}"
        self._asked[name] = request, now
        self.fetches += isinstance(request, Want)
        return name

    def answered(self, name: str | None) -> Request | None:
        """What the answer with this id is about; None if nobody asked."""
        if name is None or name not in self._asked:
            return None
        request, _ = self._asked.pop(name)
        self.fetches -= isinstance(request, Want)
        return request

    def is_overdue(self, now: float) -> bool:
        """Whether the oldest has waited too long."""
        for _, asked_at in self._asked.values():
            return now - asked_at > ANSWER_SECONDS_MAX
        return False

    def lost(self) -> list[Question]:
        """The connection is gone: the application's questions, which have to be asked again."""
        questions = [one for one, _ in self._asked.values() if isinstance(one, Question)]
        self._asked.clear()
        self.fetches = 0
        return questions
