# SPDX-License-Identifier: Apache-2.0
"""Ports of what keeps users safe from each other: blocks and reports."""

from collections.abc import Sequence
from typing import Protocol

from tidings.model.blocks import READ_MAX, Block, BlockList
from tidings.model.ids import ChatId, UserKey
from tidings.model.reports import Report, ReportState
from tidings.ports.people import Listed


class Blocks(Protocol):
    """Stores which users block each other. Writes are durable when they return.

    Each change appends two revocations of kind `block` to the revocation feed, in the same
    transaction. They name the two users.
    """

    async def put(self, block: Block) -> bool:
        """Store a block; return False, and change nothing, if the user blocks the other already."""
        ...

    async def note_chat(self, user: UserKey, blocked: UserKey, chat: ChatId, now: int) -> None:
        """Store the new direct chat of two users in their block, if there is one."""
        ...

    async def remove(self, user: UserKey, blocked: UserKey, now: int) -> None:
        """Remove a block, if there is one."""
        ...

    async def of(self, user: UserKey, most: int = READ_MAX) -> BlockList:
        """Return the blocks by a user and of a user, from a strong read.

        At most this many are returned, those by the user first.
        """
        ...

    async def blockers(self, user: UserKey, others: Sequence[UserKey]) -> dict[UserKey, Block]:
        """Return the blocks of a user by these others, from a strong read."""
        ...


class Reports(Protocol):
    """Stores reports until they expire. Writes are durable when they return."""

    async def add(self, report: Report) -> str:
        """Store a report, and return its id.

        If the reporter has reported the same message or user before, and that report has not
        expired when the new one is made, return its id and store nothing.
        """
        ...

    async def find(self, tenant: str, report_id: str, now: int) -> Report | None:
        """Return a report that has not expired, from a strong read."""
        ...

    async def page(
        self, tenant: str, state: ReportState | None, *, below: str | None, limit: int, now: int
    ) -> Listed[Report]:
        """Return the reports of a tenant in one state or in any, newest first.

        `below` is the position at which an earlier page ended.
        """
        ...

    async def change(self, before: Report, after: Report) -> bool:
        """Replace a report; return False, and change nothing, if it is no longer as `before`."""
        ...
