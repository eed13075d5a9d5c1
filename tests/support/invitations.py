# SPDX-License-Identifier: Apache-2.0
"""Lets tests add users without a limit on strangers and without invitations."""

from tidings.actions.chat.invites import Invitations, StrangerBudget
from tidings.model.roles import Invites
from tidings.ports.bus import Bus
from tidings.ports.store import Store
from tidings.ports.world import Clock


def anybody(store: Store, bus: Bus, clock: Clock) -> tuple[StrangerBudget, Invitations]:
    """Return the two objects that verbs need to add users, without any limits."""
    strangers = StrangerBudget(store.chats, store.budgets, clock, is_counting=False)
    return strangers, Invitations(store.invites, _open, bus, clock)


async def _open(_tenant: str) -> Invites:
    return "open"
