# SPDX-License-Identifier: Apache-2.0
"""Units that Tidings uses for what a tenant does with its key, besides the record of the act.

A contract test compares every figure with the units that a real engine reports.
"""

from typing import Final

from tidings.tools.charges import Charge, Units
from tidings.tools.chat_costs import Cost
from tidings.tools.identity_costs import IN_TRANSACTION

ITEMS_OF_CHAT: Final = ("chats", "messages", "listings")
"""Tables in which a new chat has one item: the chat, the first entry of its log, and the item in
the tenant's list."""
ITEMS_OF_MEMBER: Final = ("chat_memberships", "delivery_state")
"""Tables in which a new chat has one item for each member."""


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def show_tenant() -> Cost:
    """Return the cost of showing a tenant with its quotas, and the number of its users."""
    return Cost([_reads("find_tenant", "tenants", 1), _reads("show_user_count", "inbox", 0.5)])


def trace() -> Cost:
    """Return the cost of the first page of a trace of a user: whether tenant and user exist.

    The steps are in the memory of the processes, so the following pages cost nothing.
    """
    return Cost([_reads("find_tenant", "tenants", 1), _reads("show_user", "users", 0.5)])


def ban() -> Cost:
    """Return the cost of banning a user: one transaction writes the user, and an entry in the
    revocation feed."""
    return Cost(
        [
            _reads("find_user", "users", 1),
            _reads("read_revocations", "tenants", 1),
            Charge("revoke", "tenants", Units(write=IN_TRANSACTION), 1),
            Charge("revoke", "users", Units(write=IN_TRANSACTION), 0),
        ]
    )


def create_chat(members: int) -> Cost:
    """Return the cost of a group that the tenant creates, in one transaction.

    The members are looked up first, and so is the number of chats that each of them has.
    """
    items = [(table, 1) for table in ITEMS_OF_CHAT]
    items += [(table, members) for table in ITEMS_OF_MEMBER]
    written = [
        Charge("create_chat", table, Units(write=IN_TRANSACTION * count), float(not number))
        for number, (table, count) in enumerate(items)
    ]
    return Cost(
        [
            _reads("find_users", "users", members),
            _reads("count_chats", "delivery_state", members / 2, members),
            *written,
        ],
        [Charge("advance_head", "chats", Units(write=1), 1)],
    )
