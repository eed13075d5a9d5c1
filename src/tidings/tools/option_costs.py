# SPDX-License-Identifier: Apache-2.0
"""What replies, mentions, files, posts by the tenant, pins, searches, scheduled messages, webhooks
and push cost on DynamoDB, in a direct chat with nobody connected."""

from typing import Final

from tidings.tools.charges import Charge, Units, strong_units, write_units
from tidings.tools.chat_costs import DIRECT, MESSAGE_BYTES, Cost, history, react, send
from tidings.tools.identity_costs import record_act


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


def post(content: int) -> Cost:
    """Return the cost of a message that the tenant posts: that of a send, and of recording it."""
    alone = send(DIRECT, content, 0)
    key, entry = alone.to_the_answer
    intent, outcome = record_act().to_the_answer
    return Cost([intent, key, entry, outcome], alone.afterwards)


FILE_BYTES: Final = 330
"""Size of what a message says about one file, encrypted."""


def attach(files: int, content: int) -> Cost:
    """Return the cost of a message with files, whose uploads are read before it is appended."""
    alone = send(DIRECT, content, 0)
    key, _ = alone.to_the_answer
    entry = MESSAGE_BYTES + content + files * FILE_BYTES
    written = [
        key,
        Charge("read_uploads", "reactions", Units(read=files), 1),
        _in_transaction("messages", 2 * write_units(entry), 1),
        _in_transaction("reactions", 2 * files),
    ]
    return Cost(written, alone.afterwards)


def pin(content: int) -> Cost:
    """Return the cost of pinning a message: that of a reaction, and the look at the other pins."""
    reaction = react(DIRECT, content)
    pins = Charge("read_pins", "reactions", Units(read=1), 1)
    return Cost([*reaction.to_the_answer, pins], reaction.afterwards)


def search(messages: int, content: int) -> Cost:
    """Return the cost of searching a chat that is too short for an index."""
    state = Charge("read_index_state", "idempotency_keys", Units(read=1), 1)
    return Cost([state, *history(DIRECT, messages, content).to_the_answer])


SCHEDULED_BYTES: Final = 420
"""Size of a scheduled message without its content."""


def _of_scheduled(pattern: str, units: float) -> Charge:
    return Charge(pattern, "inbox", Units(write=units))


def schedule(content: int) -> Cost:
    """Return the cost of scheduling a message: its count, its time and the message itself. The end
    of the log is read to see that the user is still a member."""
    stored = write_units(SCHEDULED_BYTES + content)
    return Cost(
        [
            Charge("read_log", "messages", Units(read=1)),
            _of_scheduled("put_due", 1),
            _of_scheduled("count_scheduled", 1),
            _of_scheduled("keep_scheduled", stored),
        ]
    )


def send_scheduled(content: int) -> Cost:
    """Return the cost of sending a message at its time: that of any other message, and the steps
    before and after it. The status of the tenant is usually cached."""
    alone = send(DIRECT, content, 0)
    stored = write_units(SCHEDULED_BYTES + content)
    steps = [
        _of_scheduled("fire_scheduled", stored),
        Charge("check_user", "users", Units(read=1)),
        Charge("find_tenant", "tenants", Units(read=1)),
        *alone.to_the_answer,
        _of_scheduled("keep_scheduled", stored),
        _of_scheduled("drop_due", 1),
    ]
    return Cost(steps, alone.afterwards)


OWED_SHARDS: Final = 4
"""Partitions of what a webhook endpoint is owed; each is read before the event and after it."""


def webhook_event() -> Cost:
    """Return the cost of an event for a webhook endpoint, besides that of the message: the endpoint
    is owed it, takes it, and is owed nothing more. A burst of events of a chat costs the same, and
    a read for each further event."""
    return Cost(
        [
            _of_scheduled("put_due", 1),
            _of_scheduled("owe_events", 1),
            Charge("list_owed", "inbox", Units(read=2 * OWED_SHARDS), 2 * OWED_SHARDS),
            Charge("read_entry", "messages", Units(read=1)),
            _of_scheduled("finish_owed", 1),
        ]
    )


def push_notice(content: int) -> Cost:
    """Return the cost of a push notice to one device, besides that of the message: the mute of the
    member, the claim, the message, and the user and session of the device. The badge was counted
    less than a minute ago, and nobody has preferences."""
    return Cost(
        [
            Charge("read_mute", "chat_memberships", Units(read=1)),
            Charge("claim_push", "delivery_state", Units(write=1)),
            Charge("read_entry", "messages", Units(read=strong_units(MESSAGE_BYTES + content))),
            Charge("check_user", "users", Units(read=1)),
            Charge("read_session", "sessions", Units(read=1)),
        ]
    )
