# SPDX-License-Identifier: Apache-2.0
"""Tells connected users that somebody asks them into a group. Other gateways are told likewise."""

from tidings.gateway.hub import Hub
from tidings.model.ids import user_id
from tidings.ports.bus import Bus, Event, Invited
from tidings.wire.frames import InvitedFrame, encode


class InviteFrames:
    """Subscribes to the bus. What nobody hears of stands in the list of invitations."""

    def __init__(self, bus: Bus, hub: Hub) -> None:
        self._hub = hub
        bus.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, Invited):
            return
        if lines := self._hub.of(event.user):
            frame = encode(InvitedFrame(event.chat, user_id(event.inviter)))
            for line in lines:
                line.tell(frame)
