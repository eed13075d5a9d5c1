# SPDX-License-Identifier: Apache-2.0
"""The bus of one process: it calls the subscribers directly."""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

from tidings.ports.bus import Bus, Event

log = logging.getLogger("tidings.bus")

E = TypeVar("E", bound=Event)

_KINDS: Final = get_args(Event)


class InProcessBus:
    """Bus that passes each event to its subscribers, immediately and in order."""

    def __init__(self) -> None:
        self._subscribers: dict[type, list[Callable[[Any], None]]] = {kind: [] for kind in _KINDS}
        """Subscribers by the kind of event, in the order in which they subscribed."""

    def publish(self, event: Event) -> None:
        for receive in self._subscribers[type(event)]:
            try:
                receive(event)
            except Exception:
                log.exception("subscriber failed", extra={"action": "subscriber_failed"})

    def subscribe(self, receive: Callable[[E], None], *kinds: type[E]) -> None:
        for kind in kinds or _KINDS:
            self._subscribers[kind].append(receive)


_conforms: type[Bus] = InProcessBus
