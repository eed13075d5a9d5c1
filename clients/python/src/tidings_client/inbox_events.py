# SPDX-License-Identifier: Apache-2.0
"""Convert frames about notifications to events. No I/O.

The application gets each notification once, and never after its retraction.
"""

from collections import OrderedDict
from typing import Final

from tidings_client.frames import NotificationFrame, RetractedFrame
from tidings_client.notifications import Notification, NotificationRetracted

TOLD_MAX: Final = 10_000
"""Maximum number of notifications that are remembered; the oldest are forgotten first. This is
enough, because repeats arrive within seconds."""


class InboxEvents:
    """Remembers the latest notifications, to drop repeats.

    The server sends each frame at least once, and two gateways may send them in any order.
    """

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], bool] = OrderedDict()
        """Whether each notification was retracted, by inbox and id, the latest last."""

    def take(
        self, frame: NotificationFrame | RetractedFrame
    ) -> Notification | NotificationRetracted | None:
        """Return the event for a frame; None if the application already knows it."""
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
        """Forget all notifications, because a restored server may use their ids again."""
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
        actions=frame.actions,
        collapse_key=frame.collapse_key,
    )
