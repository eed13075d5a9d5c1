# SPDX-License-Identifier: Apache-2.0
"""Explain what became of a message on its way to a user.

The facts come from the log, the user's receipt, the user's profile, the gateways, and the processes
that send push notices. Nothing is stored for this, and nothing is guessed: a time that is not kept
is missing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tidings.actions.content.vault import Vault
from tidings.actions.explain.gateway_steps import gateway_moments
from tidings.actions.explain.message_rules import RULES, MessageFacts
from tidings.actions.explain.pushes import FindPushes, push_moments
from tidings.actions.identity.blocks import BlockLists
from tidings.model import limits
from tidings.model.chats import ChatState, ReceiptWithTimes
from tidings.model.entries import Entry
from tidings.model.explaining import (
    DeliveryVerdict,
    Explanation,
    Moment,
    What,
    connection_place,
    first_verdict,
    in_order,
)
from tidings.model.ids import ChatId, UserKey, tenant_of, user_id
from tidings.ports.chats import Chats, Receipts
from tidings.ports.delivery import DeliveryStore, PushMute
from tidings.ports.journals import FoundJournals, JournalQuestion, Journals, PushRecord
from tidings.ports.log import Log
from tidings.ports.people import User
from tidings.ports.world import Clock

PAGES_MAX: Final = 4
"""How many pages of the log after a message are read, at most, to find out what changed since."""

NEVER_ACCEPTED: Final = DeliveryVerdict(
    "never_accepted", "The server has not accepted such a message."
)


class ExplainMessage(msgspec.Struct, frozen=True):
    """Explain what became of a message on its way to a user."""

    log: Log
    chats: Chats
    receipts: Receipts
    deliveries: DeliveryStore | None
    vault: Vault
    journals: Journals
    pushes: FindPushes
    clock: Clock
    blocks: BlockLists

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
        return Explanation(first_verdict(RULES, facts), in_order(_timeline(facts)))

    async def _since(
        self, chat: ChatId, sequence: int, *, is_short: bool
    ) -> tuple[list[Entry], bool]:
        """Return the entries from a message on, and True if the log ends with them."""
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
        await self.vault.open([message], self.clock.now())
        member = state.members.get(user)
        receipt: ReceiptWithTimes | None = None
        if member is not None and not state.is_deleted:
            receipt = await self.receipts.find(user, chat, member.joined)
        block = (await self.blocks.of(user)).blocked.get(message.sender)
        journals, pushes = await self._journals(user, message, receipt)
        facts = MessageFacts(
            user=user,
            message=message,
            is_deleted=state.is_deleted,
            deleted_at=entries[-1].created_at if entries[-1].kind == "deleted" else None,
            member=member,
            later=[entry for entry in entries[1:] if _concerns(entry, message, user)],
            is_later_complete=is_complete,
            receipt=receipt,
            profile=profile,
            journals=journals,
            pushes=pushes,
            blocked_at=None if block is None else block.created_at,
        )
        return await self._completed(facts)

    async def _journals(
        self, user: UserKey, message: Entry, receipt: ReceiptWithTimes | None
    ) -> tuple[FoundJournals, tuple[PushRecord, ...]]:
        """Return what processes have in memory; there are push notices for members only."""
        question = JournalQuestion(user, message.chat_id, message.sequence)
        if receipt is None or user == message.sender:
            return await self.journals.find(question), ()
        of_message = self.pushes.of_message(
            question, message.created_at, is_silent=message.silent, claimed=receipt.receipt.pushed
        )
        async with asyncio.TaskGroup() as group:
            journals = group.create_task(self.journals.find(question))
            pushes = group.create_task(of_message)
        return journals.result(), pushes.result()

    async def _completed(self, facts: MessageFacts) -> MessageFacts:
        """Return the facts, and add those that matter only in some cases."""
        chat, connections = facts.message.chat_id, facts.connections
        if facts.receipt is not None and not connections:
            now = self.clock.now()
            row = await self.chats.row(facts.user, chat, now)
            is_muted = row is not None and PushMute(
                row.muted_until or 0, row.except_mentions
            ).holds(now, is_mention=facts.message.does_mention(facts.user))
            pushes = facts.pushes
            if not pushes and facts.is_missed:
                pushes = await self.pushes.obstacle(facts.user, ("operator", "webhook"))
            return msgspec.structs.replace(facts, is_muted=is_muted, pushes=pushes)
        is_behind = any(connection.progress == "behind" for connection in connections)
        if is_behind and self.deliveries is not None:
            reached = (await self.deliveries.reached([chat]))[chat]
            return msgspec.structs.replace(facts, dispatched=reached)
        return facts


def _concerns(entry: Entry, message: Entry, user: UserKey) -> bool:
    """Return True if an entry changes the message, or the user's membership."""
    if entry.kind in ("edited", "redacted"):
        return entry.target == message.sequence
    is_membership = entry.kind in ("added", "removed")
    return is_membership and any(person.user == user for person in entry.people)


def _timeline(facts: MessageFacts) -> Iterator[Moment]:
    """Yield what is known, in the order of cause and effect."""
    message, receipt, sequence = facts.message, facts.receipt, facts.sequence
    posted = ", posted by the tenant" if message.posted_by else ""
    yield Moment("accepted", message.created_at, f"log, sequence {sequence}{posted}")
    if facts.profile.deactivated_at is not None:
        yield Moment("deactivated", facts.profile.deactivated_at)
    for gateway in facts.journals.gateways:
        yield from gateway_moments(gateway, message.created_at)
    yield from push_moments(facts.pushes)
    if receipt is not None and facts.user != message.sender and receipt.joined <= sequence:
        yield from _receipt_moments(facts, receipt)
    if facts.is_muted:
        yield Moment("muted", None, f"chat of user {user_id(facts.user)}")
    if facts.blocked_at is not None:
        yield Moment("blocked", facts.blocked_at, f"by user {user_id(facts.user)}")
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
    if facts.is_deleted:
        yield Moment("chat_deleted", facts.deleted_at)


def _device_of(facts: MessageFacts) -> str | None:
    """Return the device that confirmed the message, if it is still connected."""
    for connection in facts.connections:
        if connection.progress == "acknowledged":
            return connection_place(connection.device, connection.connection)
    return None


def replaced(explanation: Explanation, verdict: DeliveryVerdict, *moments: Moment) -> Explanation:
    """Return an explanation with another verdict, and with more moments."""
    timeline = in_order((*explanation.timeline, *moments))
    return msgspec.structs.replace(explanation, verdict=verdict, timeline=timeline)
