# SPDX-License-Identifier: Apache-2.0
"""What other designs of the same product would use for the same steps.

They are arithmetic, not measurement: each function counts the items and index entries that the
design writes, and where a design is silent the cheaper way is taken. None means that the design
has nothing of the kind.

- s0 writes every message to each member's list (a row keyed by the time of the last message, so
  that it has to be deleted and put anew), keeps the members inside the chat's item, and the state
  of delivery on each message, which also has an index by its id.
- s1 is one table with one index. A send is a transaction: the message, the conversation's item
  with the last message's body, the sender's own mark.
- s2 has tables like ours: a counter gives out the sequence, then a transaction writes the message
  and the idempotency key. Who is a member is read with every send, and for every delivery.
- s4 is an inbox alone. Each user has a row with the whole notification, and counters of what is
  unread, in all and by category, which every step keeps up to date.
"""

from typing import Final, NamedTuple

from tidings.tools.capacity.charges import Units, relaxed_units, strong_units, write_units
from tidings.tools.capacity.traffic import Traffic

MESSAGE_BYTES: Final = 234
"""As ours: names, ids and times take about the same everywhere."""
USER_BYTES: Final = 31
STATUS_BYTES: Final = 53
"""A member inside a chat's item: when last seen, under the user's id."""
CHAT_BYTES: Final = 200
ROW_BYTES: Final = 700
"""A row of a chat list: preview, counts, ten others."""
PARTICIPANT_BYTES: Final = 180
STATE_BYTES: Final = 110
NOTIFICATION_BYTES: Final = 330
"""A user's row without the text and without the ids of all its other users."""


class RowPerMember:
    """s0: a row for each member and message."""

    name = "s0"

    def _chat_item(self, members: int) -> int:
        return CHAT_BYTES + members * (USER_BYTES + STATUS_BYTES)

    def send(self, members: int, content: int) -> Units:
        """Message and its index, chat, and each member's row: deleted and put."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 2 * members)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Delivered, counted as unread, read: for each reader. The members are read once."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        chat = self._chat_item(members)
        each = message + 1 + message + write_units(chat) + 1
        return Units(readers * each, relaxed_units(chat))

    def change_members(self, members: int) -> Units:
        """The chat's item and the user's row."""
        return Units(write_units(self._chat_item(members)) + 1)

    def mark_read(self, members: int, content: int) -> Units:
        """One unread message: itself and its index, the chat, the row."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        return Units(message + write_units(self._chat_item(members)) + 1)

    def history(self, count: int, content: int) -> Units:
        """Pages of twenty."""
        pages, rest = divmod(count, 20)
        full = pages * relaxed_units(20 * (MESSAGE_BYTES + content))
        return Units(read=full + (relaxed_units(rest * (MESSAGE_BYTES + content)) if rest else 0))

    def chat_list(self, chats: int) -> Units:
        """One query."""
        return Units(read=relaxed_units(chats * ROW_BYTES))


class SingleTable:
    """s1: a transaction of three items for each message."""

    name = "s1"

    def send(self, members: int, content: int) -> Units:
        """The message, the conversation with its body, the sender's mark and its index entry."""
        message = 2 * write_units(MESSAGE_BYTES + content)
        conversation = 2 * write_units(CHAT_BYTES + content)
        return Units(message + conversation + 2 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """Each reader's mark and its index entry; that it was delivered is not kept."""
        return Units(2 * readers)

    def change_members(self, members: int) -> Units:
        """The participant and its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """The participant and its index entry."""
        return Units(2)

    def history(self, count: int, content: int) -> Units:
        """One query."""
        return Units(read=relaxed_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """The index, each conversation (another item: no index can hold it), a count for each."""
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2 + chats / 2)


class Counter:
    """s2: a counter, then a transaction of message and key."""

    name = "s2"

    def send(self, members: int, content: int) -> Units:
        """Key looked up, membership checked, counter, message and key."""
        return Units(1 + 2 * write_units(MESSAGE_BYTES + content) + 2, 0.5 + 1)

    def deliver(self, members: int, content: int, readers: int) -> Units:
        """The members are read; each reader's mark of what was delivered. Reading is not kept."""
        return Units(readers, strong_units(members * PARTICIPANT_BYTES))

    def change_members(self, members: int) -> Units:
        """The membership and its index entry."""
        return Units(2)

    def mark_read(self, members: int, content: int) -> Units:
        """The mark of what was delivered."""
        return Units(1)

    def history(self, count: int, content: int) -> Units:
        """Membership, and one strong query."""
        return Units(read=1 + strong_units(count * (MESSAGE_BYTES + content)))

    def chat_list(self, chats: int) -> Units:
        """The index and each chat: no previews, no counts, no order by activity."""
        return Units(read=relaxed_units(chats * PARTICIPANT_BYTES) + chats / 2)

    def hello(self, chats: int) -> Units:
        """Where the user is, then in each chat the membership and a query for what is new."""
        return Units(read=relaxed_units(chats * STATE_BYTES) + 2 * chats)

    def reconnect(self, chats: int, missed: int, content: int) -> Units:
        """As hello, and what was missed in one chat."""
        found = strong_units(missed * (MESSAGE_BYTES + content)) - 1
        return self.hello(chats) + Units(read=found)


class CounterAndRows:
    """s4: a row for each user and notification, and counters beside them."""

    name = "s4"

    def post(self, users: int, content: int) -> Units:
        """For each user the row, the counter of all and that of the category."""
        return Units(users * (write_units(NOTIFICATION_BYTES + content) + 2))

    def redact(self, users: int, content: int) -> Units:
        """Every row is marked; the counters are left wrong, which is the cheaper way."""
        return Units(users * write_units(NOTIFICATION_BYTES + content))

    def list(self, count: int, content: int) -> Units:
        """One query of whole notifications."""
        return Units(read=relaxed_units(count * (NOTIFICATION_BYTES + content)))

    def unread(self) -> Units:
        """One query of all counters."""
        return Units(read=relaxed_units(0))

    def read_one(self, content: int) -> Units:
        """The row and both counters."""
        return Units(write_units(NOTIFICATION_BYTES + content) + 2)

    def read_before(self, count: int, content: int) -> Units:
        """The rows are found, each is marked, and both counters are set."""
        marks = count * write_units(NOTIFICATION_BYTES + content)
        return self.list(count, content) + Units(marks + 2)


FAN_OUT: Final = RowPerMember()
SINGLE_TABLE: Final = SingleTable()
COUNTER: Final = Counter()
ROWS_AND_COUNTERS: Final = CounterAndRows()


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


def estimate(load: Traffic) -> dict[str, Estimate]:
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
