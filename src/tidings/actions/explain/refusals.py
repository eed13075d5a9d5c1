# SPDX-License-Identifier: Apache-2.0
"""Keep the last refusals and repeats of requests in memory, by request id."""

from collections import deque
from typing import Final

import msgspec

from tidings.model.ids import UserKey
from tidings.ports.journals import TraceQuestion, TraceStep
from tidings.ports.world import Clock

REFUSALS_MAX: Final = 4_096
"""Number of requests that a process keeps; they take less than 2 MB."""
TRACE_REFUSALS_MAX: Final = 100


class KnownRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that made no message: it was refused, or it repeated an earlier one."""

    at: int
    request_id: str
    tenant: str | None
    """The caller's tenant; None if the caller is root or not known."""
    user: UserKey | None
    via: str
    """The route of a REST request, or `socket`."""
    code: str | None = None
    """Code of the refusal; None if the request was a repeat."""
    message_id: str | None = None
    """The message that the first request made, if this one was a repeat."""


class RefusalJournal:
    """Keeps the last requests of this process that made no message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: deque[KnownRequest] = deque(maxlen=REFUSALS_MAX)

    def refused(
        self, request_id: str, code: str, via: str, tenant: str | None, user: UserKey | None
    ) -> None:
        """Keep a refusal."""
        self._known.append(
            KnownRequest(
                at=self._clock.now(),
                request_id=request_id,
                tenant=tenant,
                user=user,
                via=via,
                code=code,
            )
        )

    def repeated(self, request_id: str, message_id: str, via: str, user: UserKey) -> None:
        """Keep a request that repeated an earlier one."""
        self._known.append(
            KnownRequest(
                at=self._clock.now(),
                request_id=request_id,
                tenant=user.partition(":")[0],
                user=user,
                via=via,
                message_id=message_id,
            )
        )

    def trace(self, question: TraceQuestion) -> list[TraceStep]:
        """Return the last requests of a user in a time, in order; none if a chat is asked for."""
        found: list[TraceStep] = []
        for known in reversed(self._known):
            if known.at <= question.after or len(found) == TRACE_REFUSALS_MAX:
                break
            if known.user and known.user == question.user and known.at <= question.until:
                found.append(_step(known))
        return found[::-1]

    def find(self, request_id: str, tenant: str) -> KnownRequest | None:
        """Return the last request of the tenant with this id; None if it is not kept."""
        for known in reversed(self._known):
            if known.request_id == request_id and known.tenant == tenant:
                return known
        return None


def _step(known: KnownRequest) -> TraceStep:
    what, told = ("refused", known.code) if known.code else ("repeated", known.message_id)
    return TraceStep(at=known.at, what=what, where=f"{told}, {known.via}", user=known.user)
