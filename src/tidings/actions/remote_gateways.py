# SPDX-License-Identifier: Apache-2.0
"""Elsewhere: the other gateways, for what goes from one to another at best effort."""

from collections.abc import Iterable, Mapping, Sequence

from tidings.model.ids import ChatId, UserKey
from tidings.ports.bus import InboxEvent
from tidings.ports.cluster import Handover, Registry, RegistryUnavailable


class RemoteGateways:
    """Who is connected to another gateway, and the way there."""

    def __init__(self, registry: Registry, handover: Handover, own: str) -> None:
        """`own` is the name of this process among the gateways."""
        self._registry = registry
        self._handover = handover
        self._own = own

    async def find(self, users: Iterable[UserKey]) -> dict[str, list[UserKey]]:
        """The other gateways with those of the users they hold; none if nobody can tell."""
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
        """Send a frame there; what is about a chat names it."""
        if gateways:
            self._handover.notice(frame, gateways, chat)

    def hint(self, event: InboxEvent, gateway: str | None = None) -> None:
        """Tell one of them, or all, of something about an inbox."""
        self._handover.hint(event, gateway, but_not=self._own)
