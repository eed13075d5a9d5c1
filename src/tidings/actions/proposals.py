# SPDX-License-Identifier: Apache-2.0
"""A proposal: what somebody wants to append to a chat, and how they hear what came of it."""

from typing import Protocol

from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Key
from tidings.model.refusals import Refusal
from tidings.ports.log import Declined


class Proposal(Protocol):
    """Something to append, and who waits for the answer. Exactly one of the answers is given."""

    key: Key | None
    """For a message: what makes it idempotent. None for a change of the chat."""
    is_claimed: bool
    """The key is claimed, and a search up to the head has found no entry for it."""
    attempts: int
    was_looked_into: bool
    """The log was read up to its end since it was proposed: only then may it be refused."""

    @property
    def is_ready(self) -> bool:
        """Whether `decide` may be called, and what it returned be written."""
        ...

    async def prepare(self) -> None:
        """Become ready. May raise a Refusal."""
        ...

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        """The entries to append to a chat in this state; none if there is nothing to change.

        Raises:
            Refusal: It may not, or cannot, be done.
        """
        ...

    def kept(self, entries: list[Entry]) -> None:
        """Answer: it is durable."""
        ...

    def replayed(self, entry: Entry) -> None:
        """Answer: it was sent before; this is the message as it is now."""
        ...

    def declined(self, declined: Declined) -> None:
        """Answer: the store found that it cannot be done."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """Answer: no."""
        ...
