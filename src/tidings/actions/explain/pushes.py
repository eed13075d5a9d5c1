# SPDX-License-Identifier: Apache-2.0
"""Explain what became of the push notices about a message or notification."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

import msgspec

from tidings.actions.push.directory import PushDirectory
from tidings.model.explaining import Moment
from tidings.model.ids import UserKey, tenant_of, user_id
from tidings.model.push_results import NOT_KEPT, WORDS
from tidings.ports.journals import JournalQuestion, PushJournals, PushRecord

WithoutDevice = Literal["operator", "webhook"]
"""What gets push notices for users without a registered device."""

_ORDER: Final = {result: number for number, result in enumerate(WORDS)}


class FindPushes(msgspec.Struct, frozen=True):
    """Find out what is known about the push notices to a user."""

    journals: PushJournals
    directory: PushDirectory
    has_operator: bool
    """Whether the operator has a push service, which may know devices of every user."""

    async def of_message(
        self, question: JournalQuestion, sent_at: int, *, is_silent: bool, claimed: int
    ) -> tuple[PushRecord, ...]:
        """Return what is known about a message; `claimed` is the sequence up to which notices are
        claimed in the user's receipt."""
        if is_silent:
            return (PushRecord(result="silent", at=sent_at),)
        found = await self.journals.find(question)
        is_told = any(record.result == "claimed" for record in found)
        if claimed >= question.sequence and not is_told:
            found.append(PushRecord(result="lost_claim", reason=f"up to sequence {claimed}"))
        return tuple(found)

    async def of_notification(self, question: JournalQuestion) -> tuple[PushRecord, ...]:
        """Return what is known about a notification."""
        return tuple(await self.journals.find(question))

    async def obstacle(
        self, user: UserKey, without_device: Collection[WithoutDevice] = ()
    ) -> tuple[PushRecord, ...]:
        """Return why no push notice can reach the user now, if there is a reason.

        `without_device` names what needs no registered device.
        """
        if self.has_operator and "operator" in without_device:
            return ()
        settings = await self.directory.tenant(tenant_of(user))
        if not settings.credentials:
            place = f"tenant {tenant_of(user)}"
            return (PushRecord(result="off", at=settings.updated_at, place=place),)
        has_webhook = "webhook" in settings.credentials and "webhook" in without_device
        if has_webhook or await self.directory.devices(user):
            return ()
        return (PushRecord(result="unregistered", place=f"user {user_id(user)}"),)


def push_moments(records: Sequence[PushRecord]) -> Iterator[Moment]:
    """Yield the steps of push notices for a timeline."""
    for record in records:
        what, _ = WORDS[record.result]
        where = ": ".join(text for text in (record.place, record.reason) if text)
        yield Moment(what, record.at, f"rule {record.result}" if what == "push_skipped" else where)


def push_sentence(records: Sequence[PushRecord]) -> str:
    """Return one sentence about the push notices to a user who is not connected."""
    if not records:
        return NOT_KEPT
    told = min(records, key=lambda record: _ORDER[record.result])
    reason = told.reason or "no reason is known"
    return WORDS[told.result][1].format(place=told.place, reason=reason)
