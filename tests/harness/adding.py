# SPDX-License-Identifier: Apache-2.0
"""Adding people where nobody counts strangers and nobody asks."""

from tidings.actions.invites import Invitations
from tidings.actions.strangers import Strangers
from tidings.ports.bus import Bus
from tidings.ports.store import Store
from tidings.ports.world import Clock


def anybody(store: Store, bus: Bus, clock: Clock) -> tuple[Strangers, Invitations]:
    """What the verbs that add people need besides."""
    strangers = Strangers(store.chats, store.budgets, clock, is_counting=False)
    return strangers, Invitations(store.invites, _never, bus, clock)


async def _never(_tenant: str) -> bool:
    return False
