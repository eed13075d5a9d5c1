# SPDX-License-Identifier: Apache-2.0
"""Receives handovers from other processes and passes them to the connections of this gateway."""

from collections.abc import Callable, Sequence
from typing import Final

from tidings.gateway.conversation import State
from tidings.gateway.hub import Hub
from tidings.metrics.counts import report_counts
from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.delivery import EncodedEntry, HandoverTarget
from tidings.tasks import TurnBudget

USERS_AT_ONCE: Final = 20
WAITING_USERS_MAX: Final = 50_000
"""Maximum number of queued users. Further handovers are dropped, and heads are compared instead."""


class _Job:
    """A handover that is being delivered to connections."""

    __slots__ = ("answer", "encoded_entries", "left", "reached")

    def __init__(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: int,
        answer: Callable[[list[str]], None],
    ) -> None:
        self.encoded_entries = encoded_entries
        self.left = users
        self.reached: list[str] = []
        self.answer = answer


class HandoverReceiver:
    """Queues the handovers that a gateway receives, and delivers them to a few users per turn."""

    def __init__(
        self,
        hub: Hub,
        request_reconcile: Callable[[], None],
        hint: Callable[[InboxEvent], None],
        heard: Callable[[EncodedEntry], None] = lambda _: None,
    ) -> None:
        """Set up the receiver; `heard` is called once for each entry."""
        self.dropped = 0
        """Number of handovers dropped because too many users were queued."""
        report_counts(self, "handover receiver")
        self._hub = hub
        self._request_reconcile = request_reconcile
        self._hint = hint
        self._heard = heard
        self._slices = TurnBudget()
        self._waiting_users = 0

    def entries(
        self,
        encoded_entries: Sequence[EncodedEntry],
        users: Sequence[UserKey],
        answer: Callable[[list[str]], None],
    ) -> None:
        for encoded in encoded_entries:
            self._heard(encoded)
        if self._waiting_users + len(users) > WAITING_USERS_MAX:
            self.dropped += 1
            self._request_reconcile()
            return
        self._waiting_users += len(users)
        job = _Job(encoded_entries, len(users), answer)
        # All parts are queued now, so a later handover for the same user is delivered later.
        for start in range(0, len(users), USERS_AT_ONCE):
            part = job, users[start : start + USERS_AT_ONCE]
            self._slices.defer(self._deliver, part)

    def _deliver(self, part: tuple[_Job, Sequence[UserKey]]) -> None:
        job, users = part
        for user in users:
            for connection in self._hub.of(user):
                if connection.conversation.state is State.OPEN:
                    for encoded in job.encoded_entries:
                        connection.deliver(encoded, encoded.frame, is_small=encoded.is_small)
                    # A device that is away does not prevent a push. The worker therefore sends the
                    # entries again, and the connection drops the repeated entries.
                    if not connection.conversation.is_away:
                        job.reached.append(connection.conversation.connection)
        self._waiting_users -= len(users)
        job.left -= len(users)
        if job.left == 0:
            job.answer(job.reached)

    def notice(self, frame: bytes, users: Sequence[UserKey], chat: ChatId | None) -> None:
        for user in users:
            for connection in self._hub.of(user):
                if chat is None:
                    connection.send(frame)
                else:
                    connection.notice(chat, frame)

    def hint(self, event: InboxEvent) -> None:
        self._hint(event)

    def request_reconcile(self) -> None:
        self._request_reconcile()


_conforms: type[HandoverTarget] = HandoverReceiver
