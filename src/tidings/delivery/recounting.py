# SPDX-License-Identifier: Apache-2.0
"""Fresh counts of unread for those who are connected, after messages have expired."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from tidings.delivery.folding import Folds
from tidings.model.ids import ChatId, UserKey
from tidings.model.receipts import Unread
from tidings.model.refusals import Unavailable
from tidings.ports.handover import Handover
from tidings.ports.registry import Registry, RegistryUnavailable
from tidings.wire.frames import UnreadFrame, encode


class Recounting:
    """Tells connected members how much is unread now. Best effort: no frame here is promised."""

    def __init__(
        self,
        folds: Folds,
        registry: Registry,
        handover: Handover,
        count_unread: Callable[[UserKey, ChatId], Awaitable[Unread | None]],
    ) -> None:
        self._folds = folds
        self._registry = registry
        self._handover = handover
        self._count_unread = count_unread

    async def tell(self, chat: ChatId) -> None:
        """Count for each connected member, and hand the count over."""
        with suppress(RegistryUnavailable, Unavailable):
            state = await self._folds.state(chat)
            places = await self._registry.find(state.members) if state is not None else {}
            for user, found in places.items():
                unread = await self._count_unread(user, chat)
                if unread is not None:
                    frame = encode(UnreadFrame(chat, unread.count, unread.exact))
                    gateways = {place.gateway: [user] for place in found}
                    self._handover.notice(frame, gateways, chat)
