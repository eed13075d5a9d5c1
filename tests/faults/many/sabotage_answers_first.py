# SPDX-License-Identifier: Apache-2.0
"""A gateway that answers a send before the entry is put: what faults of the store exist to find.

Run in place of `python -m tidings`.
"""

import sys
from typing import Final

from tidings.actions import appending
from tidings.actions.lanes import Lane
from tidings.actions.proposals import Proposal
from tidings.cli import main
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.ports.bus import Appended

honest_take_steps = appending.Appender._take_steps
told: Final[dict[int, Proposal]] = {}
"""Kept, so that no other proposal gets the same place in memory."""


def take_steps_and_tell(
    self: appending.Appender, lane: Lane, claimed: ChatState
) -> list[tuple[Proposal, list[Entry]]]:
    steps = honest_take_steps(self, lane, claimed)
    for proposal, entries in steps:
        if proposal.key is not None and id(proposal) not in told:
            told[id(proposal)] = proposal
            proposal.kept(entries)
    return steps


def tell_the_others(
    self: appending.Appender, outgoing: tuple[Proposal, list[Entry], ChatState]
) -> None:
    proposal, entries, state = outgoing
    if id(proposal) not in told:
        proposal.kept(entries)
    for entry in entries:
        self._bus.publish(Appended(entry, state))


if __name__ == "__main__":
    appending.Appender._take_steps = take_steps_and_tell  # type: ignore[method-assign]
    appending.Appender._tell = tell_the_others  # type: ignore[method-assign]
    sys.exit(main())
