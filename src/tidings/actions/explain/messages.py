# SPDX-License-Identifier: Apache-2.0
"""Explain what became of a message on its way to a user.

The facts come from the log, the user's receipt, the user's profile and the gateways. Nothing is
stored for this, and nothing is guessed: a time that is not kept is missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.explain.message_rules import MessageFacts, judge
from tidings.model import limits
from tidings.model.chats import ChatState, ReceiptWithTimes
from tidings.model.entries import Entry
from tidings.model.explaining import DeliveryVerdict, Explanation, Moment, What, in_order
from tidings.model.ids import ChatId, UserKey, tenant_of, user_id
from tidings.ports.chats import Chats, Receipts
from tidings.ports.delivery import DeliveryStore
from tidings.ports.log import Log
from tidings.ports.people import User
from tidings.ports.traces import GatewayTrace, Step, TraceQuestion, Traces, TraceStep
from tidings.ports.world import Clock

PAGES_MAX: Final = 4
"""How many pages of the log after a message are read, at most, to find out what changed since."""

NEVER_ACCEPTED: Final = DeliveryVerdict(
    "never_accepted", "The server has not accepted such a message."
)

_STEPS: Final[dict[Step, What]] = {
    "handed_to_gateway": "handed_to_gateway",
    "written_to_socket": "written_to_socket",
    "fetched": "fetched",
    "window_full": "window_full",
    "socket_full": "socket_full",
    "waiting_for_earlier": "waiting_for_earlier",
    "resync_sent": "resync_sent",
    "disconnected": "disconnected",
}
_TOLD_BY_CONNECTION: Final = frozenset({"written_to_socket", "window_full", "socket_full"})
"""Steps of open connections that follow from how far the message has come on them."""


@dataclass(frozen=True, slots=True)
class ExplainMessage:
    """Explain what became of a message on its way to a user."""

    log: Log
    chats: Chats
    receipts: Receipts
    deliveries: DeliveryStore | None
    vault: Vault
    traces: Traces
    clock: Clock

    async def __call__(self, chat: ChatId, sequence: int, profile: User) -> Explanation:
        """Return the verdict and the timeline for a user of the tenant.

        A chat of another tenant is treated like one that does not exist.
        """
        state = await self.log.state(chat)
        if state is None or state.tenant != tenant_of(profile.user) or sequence > state.head:
            return Explanation(NEVER_ACCEPTED)
        member = state.members.get(profile.user)
        is_plain = member is not None and member.joined <= sequence
        entries, is_complete = await self._since(chat, sequence, is_short=is_plain)
        message = entries[0]
        if message.kind != "message":
            return Explanation(NEVER_ACCEPTED)
        facts = await self._facts(state, profile, entries, is_complete)
        return Explanation(judge(facts), in_order(_timeline(facts)))

    async def _since(
        self, chat: ChatId, sequence: int, *, is_short: bool
    ) -> tuple[list[Entry], bool]:
        """Return the log from a message on, and True if this is all of it."""
        entries: list[Entry] = []
        for _ in range(1 if is_short else PAGES_MAX):
            after = entries[-1].sequence if entries else sequence - 1
            page = await self.log.tail(chat, after)
            entries += page
            if len(page) < limits.TAIL_ENTRIES_MAX:
                return entries, True
        return entries, False

    async def _facts(
        self, state: ChatState, profile: User, entries: Sequence[Entry], is_complete: bool
    ) -> MessageFacts:
        user, chat, message = profile.user, state.chat_id, entries[0]
        now = self.clock.now()
        await self.vault.open([message], now)
        member = state.members.get(user)
        receipt: ReceiptWithTimes | None = None
        if member is not None and not state.is_deleted:
            receipt = await self.receipts.find(user, chat, member.joined)
        row = None if receipt is None else await self.chats.row(user, chat, now)
        muted = None if row is None else row.muted_until
        reached = None if self.deliveries is None else await self.deliveries.reached([chat])
        return MessageFacts(
            user=user,
            now=now,
            message=message,
            deleted_at=_deleted_at(state, entries),
            member=member,
            later=[entry for entry in entries[1:] if _concerns(entry, message, user)],
            is_later_complete=is_complete,
            receipt=receipt,
            profile=profile,
            muted_until=muted if muted is not None and muted > now else None,
            traces=await self.traces.find(TraceQuestion(user, chat, message.sequence)),
            dispatched=None if reached is None else reached[chat],
        )


def _deleted_at(state: ChatState, entries: Sequence[Entry]) -> int | None:
    if not state.is_deleted:
        return None
    return entries[-1].created_at if entries[-1].kind == "deleted" else state.active_at


def _concerns(entry: Entry, message: Entry, user: UserKey) -> bool:
    """Return True if an entry changes the message, or the user's membership."""
    if entry.kind in ("edited", "redacted"):
        return entry.target == message.sequence
    is_membership = entry.kind in ("added", "removed")
    return is_membership and any(person.user == user for person in entry.people)


def _timeline(facts: MessageFacts) -> Iterator[Moment]:
    """Yield what is known, in the order of cause and effect."""
    message, receipt, sequence = facts.message, facts.receipt, facts.sequence
    yield Moment("accepted", message.created_at, f"log, sequence {sequence}")
    if facts.profile.deactivated_at is not None:
        yield Moment("deactivated", facts.profile.deactivated_at)
    for gateway in facts.traces.gateways:
        yield from gateway_moments(gateway, message.created_at)
    if receipt is not None and facts.user != message.sender and receipt.joined <= sequence:
        yield from _receipt_moments(facts, receipt)
    if facts.muted_until is not None:
        yield Moment("muted", None, f"chat of user {user_id(facts.user)}")
    yield from _changes(facts)
    yield from _end(facts)


def _receipt_moments(facts: MessageFacts, receipt: ReceiptWithTimes) -> Iterator[Moment]:
    sequence, device = facts.sequence, _device_of(facts)
    if receipt.receipt.delivered >= sequence:
        yield Moment("acknowledged", receipt.delivered_at(sequence), device)
    elif device is not None:
        yield Moment("acknowledged", None, device)
    if receipt.receipt.read >= sequence:
        yield Moment("read", receipt.read_at(sequence))


_CHANGES: Final[dict[str, What]] = {
    "edited": "edited",
    "redacted": "redacted",
    "added": "joined",
    "removed": "removed",
}


def _changes(facts: MessageFacts) -> Iterator[Moment]:
    """Yield how the message and the user's membership have changed."""
    for entry in facts.later:
        yield Moment(_CHANGES[entry.kind], entry.created_at, f"log, sequence {entry.sequence}")
    member = facts.member
    if member is not None and member.joined > facts.sequence:
        if all(entry.sequence != member.joined for entry in facts.later):
            yield Moment("joined", member.joined_at, f"log, sequence {member.joined}")


def _end(facts: MessageFacts) -> Iterator[Moment]:
    if facts.message.gone == "expired":
        yield Moment("expired", facts.message.expires_at)
    if facts.message.gone == "erased":
        yield Moment("erased")
    if facts.deleted_at is not None:
        yield Moment("chat_deleted", facts.deleted_at)


def _device_of(facts: MessageFacts) -> str | None:
    """Return the device that confirmed the message, if it is still connected."""
    for connection in facts.connections:
        if connection.progress == "acknowledged":
            return _device(connection.device, connection.connection)
    return None


def gateway_moments(gateway: GatewayTrace, since: int) -> Iterator[Moment]:
    """Yield the steps that a gateway knows, and the user's connections there."""
    for connection in gateway.connections:
        yield Moment(
            "connected", connection.connected_at, _device(connection.device, connection.connection)
        )
    is_open = {connection.connection for connection in gateway.connections}
    for step in gateway.steps:
        is_told = step.step in _TOLD_BY_CONNECTION and step.connection in is_open
        if step.at >= since and not is_told:
            yield _moment(gateway.gateway, step)
    for connection in gateway.connections:
        where = _device(connection.device, connection.connection)
        match connection.progress:
            case "written" | "acknowledged":
                yield Moment("written_to_socket", connection.written_at, where)
            case "window_full" | "socket_full" as held_back:
                yield Moment(held_back, connection.since, where)
            case _:
                pass


def _moment(gateway: str, step: TraceStep) -> Moment:
    if step.connection is None:
        return Moment("handed_to_gateway", step.at, f"gateway {gateway}")
    where = _device(step.device, step.connection)
    if step.step == "unconfirmed":
        # It was written before the connection closed, but not when.
        return Moment("written_to_socket", None, where)
    return Moment(_STEPS[step.step], step.at, where)


def _device(device: str | None, connection: str) -> str:
    return f"device {device or 'unknown'}, connection {connection}"


def replaced(explanation: Explanation, verdict: DeliveryVerdict, *moments: Moment) -> Explanation:
    """Return an explanation with another verdict, and with more moments."""
    timeline = in_order((*moments, *explanation.timeline))
    return msgspec.structs.replace(explanation, verdict=verdict, timeline=timeline)
