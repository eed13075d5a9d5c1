# SPDX-License-Identifier: Apache-2.0
"""Bus of a single process: publishing calls the subscribers."""

import logging
from collections.abc import Callable

from tidings.ports.bus import Bus, Event

log = logging.getLogger("tidings.bus")


class InProcessBus:
    """Bus that passes each event to each subscriber, immediately and in order."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Event], None]] = []

    def publish(self, event: Event) -> None:
        for receive in self._subscribers:
            try:
                receive(event)
            except Exception:
                log.exception("subscriber failed", extra={"action": "subscriber_failed"})

    def subscribe(self, receive: Callable[[Event], None]) -> None:
        self._subscribers.append(receive)


_conforms: type[Bus] = InProcessBus
