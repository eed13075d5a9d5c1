# SPDX-License-Identifier: Apache-2.0
"""The requests on one connection that wait for their answers. No I/O."""

from collections.abc import Callable
from typing import Final

import msgspec

from tidings_client.errors import TidingsError
from tidings_client.frames import Page
from tidings_client.log_view import Want
from tidings_client.saved import Outgoing

ANSWER_SECONDS_MAX: Final = 30.0
"""After this time without an answer, the connection is considered broken."""


class Question(msgspec.Struct, eq=False):
    """A page that the application requests; the request is repeated until there is an answer."""

    chat: str
    after: int | None
    before: int | None
    limit: int
    answer: Callable[[Page | TidingsError], None]


Request = Outgoing | Want | Question


class Requests:
    """The unanswered requests by their id, oldest first."""

    def __init__(self) -> None:
        self._serial = 0
        self._asked: dict[str, tuple[Request, float]] = {}
        self.fetches = 0
        """Number of unanswered requests for missing parts of logs, made by the client itself."""

    def ask(self, request: Request, now: float) -> str:
        """Register a request that is about to be sent; return its new id."""
        self._serial += 1
        name = f"{self._serial}"
        self._asked[name] = request, now
        self.fetches += isinstance(request, Want)
        return name

    def answered(self, name: str | None) -> Request | None:
        """Remove and return the request with this id; None if there is none."""
        if name is None or name not in self._asked:
            return None
        request, _ = self._asked.pop(name)
        self.fetches -= isinstance(request, Want)
        return request

    def is_overdue(self, now: float) -> bool:
        """Return whether the oldest request has waited too long."""
        for _, asked_at in self._asked.values():
            return now - asked_at > ANSWER_SECONDS_MAX
        return False

    def lost(self) -> list[Question]:
        """Forget all requests, because the connection is lost.

        Return the questions of the application, which have to be sent again.
        """
        questions = [one for one, _ in self._asked.values() if isinstance(one, Question)]
        self._asked.clear()
        self.fetches = 0
        return questions
