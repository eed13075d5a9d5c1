# SPDX-License-Identifier: Apache-2.0
"""Units that other designs of the same product would use for the same steps.

The figures are calculated, not measured: each function counts the items and index entries that
the design writes. Where a design's description is silent, the cheaper way is assumed. `estimate`
scales the operations that the description of counter and rows itself states.

- Row per member writes every message to each member's list (a row keyed by the time of the last
  message, so it has to be deleted and put again). It keeps the members inside the chat's item,
  and the state of delivery on each message, which also has an index by its id.
- Single table is one table with one index. A send is a transaction: the message, the
  conversation's item with the last message's body, the sender's own mark.
- Counter and rows has tables like ours. A counter assigns the sequence, then a transaction writes
  the message and the idempotency key. Members are read with every send and every delivery.
- Row per notification is a design of an inbox only. Each user has a row with the whole
  notification, and counters of unread notifications, in total and by category, which every step
  updates.
"""

from typing import Final, NamedTuple

from tidings.tools.charges import Units, relaxed_units, strong_units, write_units
from tidings.tools.traffic import Traffic

MESSAGE_BYTES: Final = 234
"""As in our own costs: names, ids and times take about the same everywhere."""
USER_BYTES: Final = 31
STATUS_BYTES: Final = 53
"""A member's part of a chat's item: the time last seen, under the user's id."""
CHAT_BYTES: Final = 200
ROW_BYTES: Final = 700
"""A row of a chat list: preview, counts, ten further fields."""
PARTICIPANT_BYTES: Final = 180
STATE_BYTES: Final = 110
NOTIFICATION_BYTES: Final = 330
"""A user's row without the text and without the ids of the notification's other users."""


class RowPerMember:
    """Design with a row for each member and message."""

    name = "row-per-member"

    def _chat_item(self, members: int) -> int:
        return CHAT_BYTES + members * (USER_BYTES + STATUS_BYTES)

    def send(self, members: int, content: int) -> Units:
        """Cost of the message, its index entry, the chat, and each member's row (delete, put)."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 2 * members)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Cost of marking as delivered, unread and read for each reader; members are read once."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        chat = self._chat_item(members)
        each = message + 1 + message + write_units(chat) + 1
        return Units(readers * each, relaxed_units(chat))

    def change_members(self, members: int) -> Units:
        """Cost of the chat's item and the user's row."""
        return Units(write_units(self._chat_item(members)) + 1)

    def mark_read(self, members: int, content: int) -> Units:
        """Cost of one unread message, its index entry, the chat and the user's row."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 1)

    def history(self, count: int, content: int) -> Units:
        """Cost of querying the messages in pages of twenty."""
        pages, rest = divmod(count, 20)
        full = pages * relaxed_units(20 * (MESSAGE_BYTES + content))
        return Units(read=full + (relaxed_units(rest * (MESSAGE_BYTES + content)) if rest else 0))

    def chat_list(self, chats: int) -> Units:
        """Cost of one query of the user's rows."""
        return Units(read=relaxed_units(chats * ROW_BYTES))


class SingleTable:
    """Design with one table and a transaction of three items for each message."""

    name = "single-table"

    def send(self, members: int, content: int) -> Units:
        """Cost of the message, the conversation with that message's body, and the sender's mark
        with its index entry."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        conversation = 2 * write_units(CHAT_BYTES + content)
        return Units(message + conversation + 2 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Cost of one read mark and its index entry for each reader; this design does not store
        delivery."""
        return Units(2 * readers)

    def change_members(self, members: int) -> Units:
        """Cost of the participant and its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """Cost of the participant and its index entry."""
        return Units(2)

    def history(self, count: int, content: int) -> Units:
        """Cost of one query of the messages."""
        return Units(read=relaxed_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """Cost of the index, each conversation (an item outside the index) and a count for each."""
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2 + chats / 2)


class CounterAndRows:
    """Design with a counter for the sequence, then a transaction of message and key."""

    name = "counter-and-rows"

    def send(self, members: int, content: int) -> Units:
        """Cost of reading key and membership, then writing the counter, the message and the key."""
        return Units(1 + 2 * write_units(MESSAGE_BYTES + content) + 2, 0.5 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Cost of reading the members and of one mark of delivery for each reader; this design does
        not store reading."""
        return Units(readers, strong_units(members * PARTICIPANT_BYTES))

    def change_members(self, members: int) -> Units:
        """Cost of the membership and its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """Cost of the mark of delivery."""
        return Units(1)

    def history(self, count: int, content: int) -> Units:
        """Cost of reading the membership and one strongly consistent query."""
        return Units(read=1 + strong_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """Cost of the index and each chat: no previews, no counts, no order by activity."""
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2)

    def hello(self, chats: int) -> Units:
        """Cost of the user's marks, and for each chat of the membership and the new entries."""
        return Units(read=relaxed_units(chats * STATE_BYTES) + 2 * chats)

    def reconnect(self, chats: int, missed: int, content: int) -> Units:
        """Cost of `hello` and of the missed entries of one chat."""
        found = strong_units(missed * (MESSAGE_BYTES + content)) - 1
        return self.hello(chats) + Units(read=found)


class RowPerNotification:
    """Design with a row for each user and notification, and counters of unread ones."""

    name = "row-per-notification"

    def post(self, users: int, content: int) -> Units:
        """Cost of the row, the inbox's counter and the category's counter, for each user."""
        return Units(users * (write_units(NOTIFICATION_BYTES + content) + 2))

    def redact(self, users: int, content: int) -> Units:
        """Cost of marking every row; the counters are left wrong, which is the cheaper way."""
        return Units(users * write_units(NOTIFICATION_BYTES + content))

    def list(self, count: int, content: int) -> Units:
        """Cost of one query of whole notifications."""
        return Units(read=relaxed_units(count * (NOTIFICATION_BYTES + content)))

    def unread(self) -> Units:
        """Cost of one query of all counters."""
        return Units(read=relaxed_units(0))

    def read_one(self, content: int) -> Units:
        """Cost of the row and both counters."""
        return Units(write_units(NOTIFICATION_BYTES + content) + 2)

    def read_before(self, count: int, content: int) -> Units:
        """Cost of finding the rows, marking each, and setting both counters."""
        marks = count * write_units(NOTIFICATION_BYTES + content)
        return self.list(count, content) + Units(marks + 2)


ROW_PER_MEMBER: Final = RowPerMember()
SINGLE_TABLE: Final = SingleTable()
COUNTER_AND_ROWS: Final = CounterAndRows()
ROW_PER_NOTIFICATION: Final = RowPerNotification()


_USERS: Final = 10_000
_MESSAGES: Final = 1_000_000


class Estimate(NamedTuple):
    """Average operations per second and stored gigabytes, as counter and rows estimates them."""

    reads: float
    writes: float
    gigabytes: float


class _Row(NamedTuple):
    printed: Estimate
    by: tuple[bool, bool, bool]
    """For each of the three, whether it grows with messages (True) or with users (False)."""


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


def estimate(load: Traffic) -> dict[str, Estimate]:
    """Scale the estimate in the description of counter and rows to another load."""
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
