# SPDX-License-Identifier: Apache-2.0
"""Changes of a chat that go through its log: what the actions that propose them share."""

import asyncio
from collections.abc import Callable

from tidings.actions.appending import Appender
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, Key
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import (
    ChatNotFound,
    LimitReached,
    MessageGone,
    Refusal,
)
from tidings.model.roles import Member
from tidings.ports.log import Declined

Decide = Callable[[ChatState, int], list[Entry]]


class Change:
    """A change whose proposer awaits the answer."""

    def __init__(self, decide: Decide) -> None:
        self.key: Key | None = None
        self.is_claimed = False
        self.attempts = 0
        self.was_looked_into = False
        self._decide = decide
        self.answer: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()

    @property
    def is_ready(self) -> bool:
        return True

    async def prepare(self) -> None:
        """Always ready."""

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        return self._decide(state, now)

    def kept(self, entries: list[Entry]) -> None:
        if not self.answer.done():
            self.answer.set_result(entries)

    def replayed(self, entry: Entry) -> None:
        raise AssertionError(f"only messages are repeated, not {entry.kind}")

    def declined(self, declined: Declined) -> None:
        match declined.reason:
            case "no_change":
                self.kept([])
            case "target_gone":
                self.refused(MessageGone())
            case "too_many_emoji":
                self.refused(LimitReached("the message has as many different reactions as fit"))
            case "too_many_chats":
                self.refused(LimitReached("the user is in as many chats as one may be"))

    def refused(self, refusal: Refusal) -> None:
        if not self.answer.done():
            self.answer.set_exception(refusal)


async def change(appender: Appender, chat: ChatId, decide: Decide) -> list[Entry]:
    """Append what `decide` makes of the chat, and return it once it is durable.

    Empty if there was nothing to change. Raises the Refusal that `decide` or the store came to.
    """
    proposal = Change(decide)
    appender.propose(chat, proposal)
    return await proposal.answer


def membership_of(state: ChatState, user: UserKey) -> Member:
    """The user's membership.

    Raises:
        ChatNotFound: Not a member; the same as for a chat that is not there.
    """
    member = state.members.get(user)
    if member is None:
        raise ChatNotFound
    return member
