# SPDX-License-Identifier: Apache-2.0
"""Units that other designs of the same product would use for the same use cases.

The figures are calculated, not measured: each function counts the items and index entries that the
design reads and writes. If a design's description leaves something open, the cheaper way is
assumed. `estimate` scales the numbers of operations that the description of `counter-and-rows`
states.

- `row-per-member` stores the last message in the chat list of each member. A row of this list is
  keyed by the time of the last message, so each message deletes the row and puts a new one. The
  members are stored in the chat's item, and the state of delivery in each message, which also has
  an index by its id.
- `single-table` has one table with one index. A send is a transaction, which writes the message,
  the conversation's item with the text of the last message, and the sender's read mark.
- `counter-and-rows` has tables like ours. A counter assigns the sequence, then a transaction writes
  the message and the idempotency key. Members are read with every send and every delivery.
- `row-per-notification` is a design for an inbox only. Each user has a row with the whole
  notification, and counters of unread notifications, in total and by category. Every use case
  updates the counters.
"""

from typing import Final, NamedTuple

from tidings.tools.charges import Units, relaxed_units, strong_units, write_units
from tidings.tools.traffic import Traffic

MESSAGE_BYTES: Final = 234
"""Size of a message without its text. It is the same as in our own costs, because names, ids and
times take about as many bytes in every design."""
USER_BYTES: Final = 31
STATUS_BYTES: Final = 53
"""Size of a member's part in a chat's item: the time last seen, under the user's id."""
CHAT_BYTES: Final = 200
ROW_BYTES: Final = 700
"""Size of a row of a chat list: preview, counts and ten further fields."""
PARTICIPANT_BYTES: Final = 180
STATE_BYTES: Final = 110
NOTIFICATION_BYTES: Final = 330
"""Size of a user's row, without the text and the ids of the notification's other users."""
_USERS: Final = 10_000
_MESSAGES: Final = 1_000_000


class RowPerMember:
    """Design with a row of the chat list for each member, which every message replaces."""

    name = "row-per-member"

    def _chat_item(self, members: int) -> int:
        return CHAT_BYTES + members * (USER_BYTES + STATUS_BYTES)

    def send(self, members: int, content: int) -> Units:
        """Return the cost of writing the message with its index entry, the chat, and all rows.

        The row of each member is deleted and put again.
        """
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 2 * members)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Return the cost of recording, for each reader, that the message is delivered and read.

        The members are read once.
        """
        message = 2 * write_units(MESSAGE_BYTES + content)
        chat = self._chat_item(members)
        each = message + 1 + message + write_units(chat) + 1
        return Units(readers * each, relaxed_units(chat))

    def change_members(self, members: int) -> Units:
        """Return the cost of writing the chat's item and the user's row."""
        return Units(write_units(self._chat_item(members)) + 1)

    def mark_read(self, members: int, content: int) -> Units:
        """Return the cost of marking a message as read: the message with its index entry, the chat
        and the user's row are written."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 1)

    def history(self, count: int, content: int) -> Units:
        """Return the cost of querying the messages in pages of twenty."""
        pages, rest = divmod(count, 20)
        full = pages * relaxed_units(20 * (MESSAGE_BYTES + content))
        return Units(read=full + (relaxed_units(rest * (MESSAGE_BYTES + content)) if rest else 0))

    def chat_list(self, chats: int) -> Units:
        """Return the cost of one query of the user's rows."""
        return Units(read=relaxed_units(chats * ROW_BYTES))


class SingleTable:
    """Design with one table and a transaction of three items for each message."""

    name = "single-table"

    def send(self, members: int, content: int) -> Units:
        """Return the cost of writing the message, the conversation and the sender's read mark.

        The conversation contains the text of the message; the read mark has an index entry.
        """
        message = 2 * write_units(MESSAGE_BYTES + content)
        conversation = 2 * write_units(CHAT_BYTES + content)
        return Units(message + conversation + 2 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Return the cost of writing a read mark with its index entry, for each reader.

        This design does not store delivery.
        """
        return Units(2 * readers)

    def change_members(self, members: int) -> Units:
        """Return the cost of writing the user's membership with its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """Return the cost of writing a read mark with its index entry; it is in the membership."""
        return Units(2)

    def history(self, count: int, content: int) -> Units:
        """Return the cost of one query of the messages."""
        return Units(read=relaxed_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """Return the cost of reading the index and, for each chat, an item and a count."""
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2 + chats / 2)


class CounterAndRows:
    """Design in which a counter assigns the sequence, and then a transaction writes the message and
    the key."""

    name = "counter-and-rows"

    def send(self, members: int, content: int) -> Units:
        """Return the cost of reading the key and the membership, and of writing three items.

        These are the counter, the message and the key.
        """
        return Units(1 + 2 * write_units(MESSAGE_BYTES + content) + 2, 0.5 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Return the cost of reading the members, and of writing a delivery mark for each reader.

        This design does not store which messages were read.
        """
        return Units(readers, strong_units(members * PARTICIPANT_BYTES))

    def change_members(self, members: int) -> Units:
        """Return the cost of writing the membership with its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """Return the cost of writing the delivery mark."""
        return Units(1)

    def history(self, count: int, content: int) -> Units:
        """Return the cost of reading the membership, and of one query with a strong read."""
        return Units(read=1 + strong_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """Return the cost of reading the index and each chat.

        The list has no previews and no counts, and is not ordered by activity.
        """
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2)

    def hello(self, chats: int) -> Units:
        """Return the cost of reading the user's marks, and for each chat two more items.

        These are the user's membership and the new entries.
        """
        return Units(read=relaxed_units(chats * STATE_BYTES) + 2 * chats)

    def reconnect(self, chats: int, missed: int, content: int) -> Units:
        """Return the cost of `hello`, and of reading the missed entries of one chat."""
        found = strong_units(missed * (MESSAGE_BYTES + content)) - 1
        return self.hello(chats) + Units(read=found)


class RowPerNotification:
    """Design with a row for each user and notification, and counters of unread notifications."""

    name = "row-per-notification"

    def post(self, users: int, content: int) -> Units:
        """Return the cost of writing, for each user, a row and the counters of the inbox and the
        category."""
        return Units(users * (write_units(NOTIFICATION_BYTES + content) + 2))

    def redact(self, users: int, content: int) -> Units:
        """Return the cost of marking every row.

        The counters are assumed to stay wrong, which is the cheaper way.
        """
        return Units(users * write_units(NOTIFICATION_BYTES + content))

    def list(self, count: int, content: int) -> Units:
        """Return the cost of one query of whole notifications."""
        return Units(read=relaxed_units(count * (NOTIFICATION_BYTES + content)))

    def unread(self) -> Units:
        """Return the cost of one query of all counters."""
        return Units(read=relaxed_units(0))

    def read_one(self, content: int) -> Units:
        """Return the cost of writing the row, and the counters of the inbox and the category."""
        return Units(write_units(NOTIFICATION_BYTES + content) + 2)

    def read_before(self, count: int, content: int) -> Units:
        """Return the cost of finding the rows, marking each, and setting the counters of the inbox
        and the category."""
        marks = count * write_units(NOTIFICATION_BYTES + content)
        return self.list(count, content) + Units(marks + 2)


ROW_PER_MEMBER: Final = RowPerMember()
SINGLE_TABLE: Final = SingleTable()
COUNTER_AND_ROWS: Final = CounterAndRows()
ROW_PER_NOTIFICATION: Final = RowPerNotification()


class Estimate(NamedTuple):
    """Average operations per second and stored gigabytes, estimated for `counter-and-rows`."""

    reads: float
    writes: float
    gigabytes: float


class _Row(NamedTuple):
    printed: Estimate
    by: tuple[bool, bool, bool]
    """For reads, writes and gigabytes: True if they grow with messages, False with users."""


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
    """Return the published estimate of `counter-and-rows` for each table, scaled to this load."""
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
