# SPDX-License-Identifier: Apache-2.0
"""A gateway that answers a send before the entry is put: what faults of the store exist to find.

Run in place of `python -m tidings`.
"""

import sys
from typing import Final

from tidings.actions.chat import appender
from tidings.actions.chat.chat_queue import AppendRequest, ChatQueue
from tidings.cli import main
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.ports.bus import Appended

honest_take_steps = appender.Appender._take_steps
told: Final[dict[int, AppendRequest]] = {}
"""Kept, so that no other proposal gets the same place in memory."""


def take_steps_and_tell(
    self: appender.Appender, chat_queue: ChatQueue, claimed: ChatState
) -> list[tuple[AppendRequest, list[Entry]]]:
    steps = honest_take_steps(self, chat_queue, claimed)
    for proposal, entries in steps:
        if proposal.key is not None and id(proposal) not in told:
            told[id(proposal)] = proposal
            proposal.kept(entries)
    return steps


def tell_the_others(
    self: appender.Appender, outgoing: tuple[AppendRequest, list[Entry], ChatState]
) -> None:
    proposal, entries, state = outgoing
    if id(proposal) not in told:
        proposal.kept(entries)
    for entry in entries:
        self._bus.publish(Appended(entry, state))


if __name__ == "__main__":
    appender.Appender._take_steps = take_steps_and_tell  # type: ignore[method-assign]
    appender.Appender._answer_and_publish = tell_the_others  # type: ignore[method-assign]
    sys.exit(main())
