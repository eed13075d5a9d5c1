# SPDX-License-Identifier: Apache-2.0
"""Frames about notifications: each notification is handed out once, and not after it was taken
back. No I/O."""

from collections import OrderedDict
from typing import Final

from tidings_client.events import Notification, NotificationRetracted
from tidings_client.frames import NotificationFrame, RetractedFrame

TOLD_MAX: Final = 10_000
"""How many notifications are remembered, latest first; repeats follow within seconds."""


class InboxEvents:
    """What has been told of which notification. The server tells at least once, and two gateways
    may tell in any order."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], bool] = OrderedDict()
        """By inbox and id, latest last: whether it was taken back."""

    def take(
        self, frame: NotificationFrame | RetractedFrame
    ) -> Notification | NotificationRetracted | None:
        """The event of a frame; None if it says nothing new."""
        key = frame.inbox, frame.id
        told = self._told.pop(key, None)
        is_retracted = isinstance(frame, RetractedFrame)
        self._told[key] = is_retracted or told is True
        if len(self._told) > TOLD_MAX:
            self._told.popitem(last=False)
        if told is True or told is is_retracted:
            return None
        if isinstance(frame, RetractedFrame):
            return NotificationRetracted(inbox=frame.inbox, id=frame.id)
        return _notification(frame)

    def forget(self) -> None:
        """The server was put back to an earlier state: it may use ids a second time."""
        self._told.clear()


def _notification(frame: NotificationFrame) -> Notification:
    return Notification(
        inbox=frame.inbox,
        id=frame.id,
        category=frame.category,
        sender=frame.sender,
        received_at=frame.received_at,
        message=frame.message,
        host_system_id=frame.host_system_id,
    )
