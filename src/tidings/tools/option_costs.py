# SPDX-License-Identifier: Apache-2.0
"""What replies, mentions and pins cost on DynamoDB, in a direct chat with nobody connected."""

from tidings.tools.charges import Charge, Units, strong_units, write_units
from tidings.tools.chat_costs import DIRECT, MESSAGE_BYTES, Cost, react, send


def _in_transaction(table: str, units: float, requests: float = 0) -> Charge:
    return Charge("change_chat", table, Units(write=units), requests)


def reply(content: int) -> Cost:
    """Return the cost of answering a message with a text of the same size.

    The answered message is read twice: to see whether it has content, and before it is changed.
    """
    entry = MESSAGE_BYTES + content
    alone = send(DIRECT, content, 0)
    key, _ = alone.to_the_answer
    written = [
        key,
        Charge("read_entry", "messages", Units(read=2 * strong_units(entry)), 2),
        _in_transaction("messages", 4 * write_units(entry), 1),
        _in_transaction("reactions", 2),
    ]
    return Cost(written, alone.afterwards)


def mention(users: int, content: int) -> Cost:
    """Return the cost of a message that mentions users."""
    alone = send(DIRECT, content, 0)
    key, _ = alone.to_the_answer
    written = [
        key,
        _in_transaction("messages", 2 * write_units(MESSAGE_BYTES + content), 1),
        _in_transaction("idempotency_keys", 2 * users),
    ]
    return Cost(written, alone.afterwards)


def pin(content: int) -> Cost:
    """Return the cost of pinning a message: that of a reaction, and the look at the other pins."""
    reaction = react(DIRECT, content)
    pins = Charge("read_pins", "reactions", Units(read=1), 1)
    return Cost([*reaction.to_the_answer, pins], reaction.afterwards)
