# SPDX-License-Identifier: Apache-2.0
"""A transaction in the making: its writes, and what it means if one of them cannot be."""

from typing import Final

from tidings.ports.log import Outcome, SlotTaken
from tidings.stores.dynamodb.trouble import Canceled
from tidings.stores.dynamodb.writes import Write

SLOT_TAKEN: Final = SlotTaken()


class Plan:
    """The writes of one run that go together."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.member_count: int | None = None
        """How many members there will be, if the run changes that."""
        self._meanings: list[Outcome] = []

    def add(self, write: Write, meaning: Outcome = SLOT_TAKEN) -> None:
        """Add a write; `meaning` is what comes of the run if its condition does not hold.

        The usual meaning: another writer was first, and the chat has to be looked at again.
        """
        self.writes.append(write)
        self._meanings.append(meaning)

    def outcome(self, canceled: Canceled) -> Outcome:
        """What came of the run. A lost slot explains everything else, so it goes first.

        A conflict is a lost slot as well: another transaction is at work on the same chat.
        """
        failed = [
            meaning
            for meaning, reason in zip(self._meanings, canceled.reasons, strict=True)
            if reason.is_condition
        ]
        if not failed or SLOT_TAKEN in failed or any(r.is_conflict for r in canceled.reasons):
            return SLOT_TAKEN
        return failed[0]
