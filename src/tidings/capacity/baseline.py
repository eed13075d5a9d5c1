# SPDX-License-Identifier: Apache-2.0
"""The estimate that the design s2 gives of itself, as printed there and in proportion.

It was made for 10,000 users a day with 100 messages each, and counts operations, not units.
"""

from typing import Final, NamedTuple

from tidings.capacity.load import Load

_USERS: Final = 10_000
_MESSAGES: Final = 1_000_000


class Estimate(NamedTuple):
    """Operations a second on average, and gigabytes held."""

    reads: float
    writes: float
    gigabytes: float


class _Row(NamedTuple):
    printed: Estimate
    by: tuple[bool, bool, bool]
    """Which of the three follow the number of messages; the others follow that of users."""


_ROWS: Final = {
    "messages": _Row(Estimate(100, 12, 5), (False, True, True)),
    "chat_counters": _Row(Estimate(0, 12, 0.01), (False, True, False)),
    "idempotency_keys": _Row(Estimate(12, 12, 0.5), (True, True, True)),
    "delivery_state": _Row(Estimate(50, 20, 0.1), (False, True, False)),
    "users": _Row(Estimate(20, 0.1, 0.05), (False, False, False)),
    "chats": _Row(Estimate(30, 0.5, 0.01), (False, False, False)),
    "chat_memberships": _Row(Estimate(50, 1, 0.1), (False, False, False)),
    "sessions": _Row(Estimate(10, 1, 0.01), (False, False, False)),
}


def estimate(load: Load) -> dict[str, Estimate]:
    """The same estimate for another load, table by table."""
    users, messages = load.dau / _USERS, load.messages / _MESSAGES
    return {
        table: Estimate(
            *(
                value * (messages if follows else users)
                for value, follows in zip(row.printed, row.by, strict=True)
            )
        )
        for table, row in _ROWS.items()
    }
