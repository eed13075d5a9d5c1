# SPDX-License-Identifier: Apache-2.0
"""The rules that decide what became of a message on its way to a user.

Each rule looks at the same facts, and returns a verdict or None. The first rule that returns a
verdict decides. To add a verdict, add its code to `model/explaining.py`, and its rule to `RULES`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidings.actions.explain.presence import absence, open_connections
from tidings.actions.explain.pushes import push_sentence
from tidings.model.chats import ReceiptWithTimes
from tidings.model.entries import Entry
from tidings.model.explaining import Code, DeliveryVerdict, Rule
from tidings.model.ids import UserKey
from tidings.model.roles import Member
from tidings.ports.journals import ConnectionProgress, FoundJournals, Progress, PushRecord
from tidings.ports.people import User


class MessageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one message and one user of its tenant."""

    user: UserKey
    message: Entry
    """The message, with the reason in `gone` if its content is gone."""
    is_deleted: bool
    """Whether the chat was deleted."""
    deleted_at: int | None
    """When the chat was deleted, if that is known."""
    member: Member | None
    """The user's membership now."""
    later: Sequence[Entry]
    """Entries after the message that concern it or the user's membership, in order."""
    is_later_complete: bool
    """Whether `later` reaches the end of the log."""
    receipt: ReceiptWithTimes | None
    profile: User
    journals: FoundJournals
    pushes: Sequence[PushRecord] = ()
    """What is known about push notices."""
    blocked_at: int | None = None
    """When the user began to block the sender; None if the user does not."""
    is_muted: bool = False
    """Whether the user's mute of the chat covers this message; only known if the user is
    offline."""
    dispatched: int | None = None
    """The sequence up to which workers have delivered the chat; only known if a connection lacks
    the message, and None if this process delivers."""

    @property
    def sequence(self) -> int:
        """The sequence of the message."""
        return self.message.sequence

    @property
    def is_missed(self) -> bool:
        """Whether a member who could have the message has not confirmed it, as far as the receipt
        shows."""
        receipt = self.receipt
        if receipt is None or receipt.receipt.delivered >= self.sequence:
            return False
        is_hidden = self.message.gone is not None or self.blocked_at is not None
        is_off = self.profile.deactivated_at is not None or self.user == self.message.sender
        return not is_hidden and not is_off

    @property
    def membership_change(self) -> Entry | None:
        """The first entry after the message that added or removed the user."""
        return next((entry for entry in self.later if entry.kind in ("added", "removed")), None)

    @property
    def connections(self) -> list[ConnectionProgress]:
        """The open connections of the user, in all gateways that answered."""
        return open_connections(self.journals)


def _own(facts: MessageFacts) -> DeliveryVerdict | None:
    if facts.user != facts.message.sender:
        return None
    return DeliveryVerdict("own_message", "The user sent this message.", facts.message.created_at)


def _not_member(facts: MessageFacts) -> DeliveryVerdict | None:
    change = facts.membership_change
    if facts.member is not None and facts.member.joined <= facts.sequence:
        return None
    if change is not None and change.kind == "removed":
        return None
    if change is None and not facts.is_later_complete:
        return None
    if facts.member is None:
        return DeliveryVerdict("not_member", "The user was not a member of the chat at that time.")
    text = "The user joined the chat after this message, so it is in the history only."
    return DeliveryVerdict("not_member", text, facts.member.joined_at)


def _deleted(facts: MessageFacts) -> DeliveryVerdict | None:
    if not facts.is_deleted:
        return None
    return DeliveryVerdict("chat_deleted", "The chat was deleted.", facts.deleted_at)


def _removed(facts: MessageFacts) -> DeliveryVerdict | None:
    if facts.member is not None and facts.member.joined <= facts.sequence:
        return None
    change = facts.membership_change
    if change is None:
        text = "Whether the user was a member of the chat at that time is not known."
        return DeliveryVerdict("unknown", text)
    text = "The user left the chat or was removed. Whether the message arrived before is not kept."
    return DeliveryVerdict("removed", text, change.created_at)


def _gone(facts: MessageFacts) -> DeliveryVerdict | None:
    message = facts.message
    if message.gone == "redacted":
        found = (entry.created_at for entry in facts.later if entry.kind == "redacted")
        return DeliveryVerdict("redacted", "The message was redacted.", next(found, None))
    if message.gone == "expired":
        return DeliveryVerdict("expired", "The message has expired.", message.expires_at)
    if message.gone == "erased":
        return DeliveryVerdict("erased", "The content of the sender was erased.")
    return None


def _blocked(facts: MessageFacts) -> DeliveryVerdict | None:
    if facts.blocked_at is None:
        return None
    text = "The user blocks the sender, so the message has no content for the user."
    return DeliveryVerdict("blocked", text, facts.blocked_at)


def _read(facts: MessageFacts) -> DeliveryVerdict | None:
    receipt = facts.receipt
    if receipt is None or receipt.receipt.read < facts.sequence:
        return None
    return DeliveryVerdict(
        "read", "The user has read the message.", receipt.read_at(facts.sequence)
    )


def _acknowledged(facts: MessageFacts) -> DeliveryVerdict | None:
    receipt = facts.receipt
    if receipt is not None and receipt.receipt.delivered >= facts.sequence:
        text = "A device of the user has received the message; the user has not read it."
        return DeliveryVerdict("acknowledged", text, receipt.delivered_at(facts.sequence))
    for connection in facts.connections:
        if connection.progress == "acknowledged":
            text = f"Device {connection.device} has received the message; the user has not read it."
            return DeliveryVerdict("acknowledged", text, connection.since)
    return None


def _absent(facts: MessageFacts) -> DeliveryVerdict | None:
    more = " The user has muted the chat." if facts.is_muted else ""
    more += f" {push_sentence(facts.pushes)}"
    was_active = facts.receipt is not None and _has_moved(facts.receipt)
    return absence(facts.profile, facts.journals, was_active=was_active, more=more)


def _has_moved(receipt: ReceiptWithTimes) -> bool:
    """Return True if the user has received, read or sent something in the chat since joining."""
    return max(receipt.receipt.delivered, receipt.receipt.read) > receipt.joined


_ON_CONNECTION: Final[Sequence[tuple[Progress, Code, str]]] = (
    ("written", "written", "Written to the socket of device {device}, which has not confirmed it."),
    ("fetched", "fetched", "Device {device} fetched the message and has not confirmed it."),
    (
        "window_full",
        "window_full",
        "The message waits until device {device} confirms the entries before it.",
    ),
    ("socket_full", "socket_full", "The message waits: device {device} does not read its socket."),
    (
        "resync",
        "resync_not_fetched",
        "The server asked device {device} to load the chat again; it has not fetched it.",
    ),
    (
        "resync_fetched",
        "unknown",
        "Device {device} loads the chat again. Whether it has this message is not kept.",
    ),
    (
        "before_connection",
        "before_connection",
        "Device {device} has the message from before, or shows it as history only.",
    ),
    ("heads_only", "not_followed", "Device {device} does not follow the chat."),
)
"""How far a message may have come on a connection, the furthest first, with the verdict."""


def _on_connection(facts: MessageFacts) -> DeliveryVerdict | None:
    for progress, code, text in _ON_CONNECTION:
        for connection in facts.connections:
            if connection.progress == progress:
                since = connection.since
                if progress in ("before_connection", "heads_only"):
                    since = connection.connected_at
                return DeliveryVerdict(code, text.format(device=connection.device), since)
    return None


def _behind(facts: MessageFacts) -> DeliveryVerdict | None:
    since = facts.message.created_at
    if facts.dispatched is not None and facts.dispatched < facts.sequence:
        return DeliveryVerdict("not_dispatched", "No worker has delivered the message yet.", since)
    return DeliveryVerdict("behind", "The server is about to send the message.", since)


RULES: Final[Sequence[Rule[MessageFacts]]] = (
    _deleted,
    _own,
    _not_member,
    _removed,
    _gone,
    _blocked,
    _read,
    _acknowledged,
    _absent,
    _on_connection,
    _behind,
)
"""The rules in the order in which they are asked; the last one always has a verdict."""
