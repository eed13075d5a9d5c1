# SPDX-License-Identifier: Apache-2.0
"""Units that Tidings uses when a tenant inspects a chat: its log, or what became of a message.

A contract test compares every figure with the units that a real engine reports.
"""

from typing import Final

from tidings.tools.charges import Charge, Units, strong_units
from tidings.tools.chat_costs import (
    MEMBER_BYTES,
    MESSAGE_BYTES,
    Cost,
    history,
    message,
)

FOLDED_ENTRIES: Final = 20
"""Number of entries at the end of the log that are read with the state of a chat."""


def _reads(pattern: str, table: str, units: float, requests: float = 1) -> Charge:
    return Charge(pattern, table, Units(read=units), requests)


def _writes(pattern: str, table: str, units: float) -> Charge:
    return Charge(pattern, table, Units(write=units), 1)


def explain(members: int, count: int, content: int) -> Cost:
    """Return the cost of explaining what became of a message on its way to a member who is offline.

    The log has `count` entries from the message on. If the member has not received the message, and
    no push notice is known, the push settings of the tenant and the devices of the member are read,
    too, unless they are cached.
    """
    since = strong_units(count * (MESSAGE_BYTES + content))
    return Cost(
        [
            _reads("read_log", "messages", since + 2, 3),
            _reads("read_chat", "chats", 2, 2),
            _reads("list_members", "chat_memberships", strong_units(members * MEMBER_BYTES)),
            _reads("read_receipt", "delivery_state", 2, 2),
            _reads("show_last", "messages", 1),
            _reads("count_unread", "messages", 1),
            _reads("check_member", "chat_memberships", 1),
        ]
    )


def report(members: int, content: int) -> Cost:
    """Return the cost of reporting a message, without a comment.

    The report and the claim of its reporter are written in one transaction, after the report was
    charged to the reporter's budget of the day.
    """
    return Cost(
        [
            *message(members, content).to_the_answer,
            _writes("spend", "sessions", 2),
            _writes("add_report", "idempotency_keys", 4),
        ]
    )


def inspect_log(members: int, count: int, content: int) -> Cost:
    """Return the cost of a page of the log for the tenant.

    The chat's state is read first, and the last entry of the log with the page.
    """
    tail = FOLDED_ENTRIES * (MESSAGE_BYTES + content)
    state = [
        _reads("read_log", "messages", strong_units(tail) + 1, 2),
        _reads("read_chat", "chats", 1),
        _reads("list_members", "chat_memberships", 1),
    ]
    return Cost([*state, *history(members, count, content).to_the_answer])
