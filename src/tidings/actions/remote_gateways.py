# SPDX-License-Identifier: Apache-2.0
"""Best-effort frames and hints from this gateway to the other gateways."""

from collections.abc import Iterable, Mapping, Sequence

from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.delivery import Handover, Registry, RegistryUnavailable


class RemoteGateways:
    """The other gateways: which users are connected there, and how to reach them."""

    def __init__(self, registry: Registry, handover: Handover, own: str) -> None:
        """Take `own`, the name of this process among the gateways."""
        self._registry = registry
        self._handover = handover
        self._own = own

    async def find(self, users: Iterable[UserKey]) -> dict[str, list[UserKey]]:
        """Return other gateways, each with its connected users; none without the registry."""
        try:
            found = await self._registry.find(users)
        except RegistryUnavailable:
            return {}
        by_gateway: dict[str, list[UserKey]] = {}
        for user, places in found.items():
            for gateway in {place.gateway for place in places} - {self._own}:
                by_gateway.setdefault(gateway, []).append(user)
        return by_gateway

    def send(
        self, frame: bytes, gateways: Mapping[str, Sequence[UserKey]], chat: ChatId | None = None
    ) -> None:
        """Send a frame to users on other gateways; `chat` is the chat it is about, if any."""
        if gateways:
            self._handover.notice(frame, gateways, chat)

    def hint(self, event: InboxEvent, gateway: str | None = None) -> None:
        """Send an event of an inbox to one other gateway, or to all of them."""
        self._handover.hint(event, gateway, but_not=self._own)
