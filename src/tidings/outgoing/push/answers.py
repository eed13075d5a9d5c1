# SPDX-License-Identifier: Apache-2.0
"""What a push service answers to a request, and what an answer says about a notice."""

import re
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

import msgspec

from tidings.model import limits
from tidings.ports.push import PushOutcome

REQUEST_SECONDS_MAX: Final = 5.0
"""Time for one request: looking up the name, connecting, sending, and the answer. A notice may need
two."""
RETRY_AFTER_MS_MAX: Final = 24 * 60 * 60 * limits.SECOND_MS
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


class ServiceAnswer(msgspec.Struct, frozen=True):
    """The answer of a push service; of its body, only the beginning."""

    status: int
    body: bytes = b""
    retry_after: str | None = None


class NoAnswer(Exception):
    """A push service did not answer. The outcome says whether it can have taken the notice."""

    def __init__(self, outcome: PushOutcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.reason)


class ServicePosts(Protocol):
    """Posts requests to push services. It connects to no address that is not allowed."""

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> ServiceAnswer:
        """Post a body once, and return the answer; redirects are not followed.

        Raises:
            NoAnswer: There was no answer within `REQUEST_SECONDS_MAX`.
        """
        ...


def not_sent(reason: str, answer: ServiceAnswer, now: int) -> PushOutcome:
    """Return the outcome of an answer that asks for another attempt."""
    return PushOutcome("not_sent", reason, _retry_after_ms(answer.retry_after, now))


def _retry_after_ms(header: str | None, now: int) -> int | None:
    """Return the value of a header `Retry-After`: a number of seconds, or a date."""
    if header is None:
        return None
    if _SECONDS.fullmatch(header):
        wait = int(header) * limits.SECOND_MS
    else:
        try:
            wait = int(parsedate_to_datetime(header).timestamp() * limits.SECOND_MS) - now
        except (ValueError, OverflowError):
            return None
    return min(max(wait, 0), RETRY_AFTER_MS_MAX)
