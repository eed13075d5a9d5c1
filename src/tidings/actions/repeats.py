# SPDX-License-Identifier: Apache-2.0
"""Repeats of a send: finding the message that is in the log already, and answering with it."""

from collections.abc import Iterable

from tidings.actions.proposals import Proposal
from tidings.actions.send_digests import is_same_send
from tidings.model.entries import Entry
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal, SendConflict
from tidings.ports.log import Log
from tidings.ports.world import Clock


class Repeats:
    """Looks for what was sent under a key before."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    async def answer_if_sent(self, chat: ChatId, proposal: Proposal) -> bool:
        """Answer a proposal whose key is taken; False if its message has yet to be appended."""
        assert proposal.key is not None
        try:
            sent = await self._log.find_sent(chat, proposal.key, self._clock.now())
        except Refusal as refusal:
            proposal.refused(refusal)
            return True
        if sent is None:
            return False  # it expired a moment ago: claim it afresh
        if not is_same_send(proposal.key.digest, sent.digest):
            proposal.refused(SendConflict())
            return True
        if sent.entry is not None:
            proposal.replayed(sent.entry)
            return True
        proposal.is_claimed = True
        return False

    async def refuse_unless_sent(self, chat: ChatId, proposal: Proposal, refusal: Refusal) -> None:
        """The last word to a sender who was removed: a repeat of an own send is still answered."""
        assert proposal.key is not None
        try:
            sent = await self._log.find_sent(chat, proposal.key, self._clock.now())
        except Refusal as trouble:
            proposal.refused(trouble)
            return
        is_same = sent is not None and is_same_send(proposal.key.digest, sent.digest)
        if is_same and sent is not None and sent.entry is not None:
            proposal.replayed(sent.entry)
        else:
            proposal.refused(refusal)


def doubt_claims(proposals: Iterable[Proposal], missed: Iterable[Entry]) -> None:
    """One of these entries may be a repeat of such a send: claiming the key anew will tell."""
    sent = {(entry.sender, entry.client_message_id) for entry in missed}
    for proposal in proposals:
        key = proposal.key
        if key is not None and (key.sender, key.client_message_id) in sent:
            proposal.is_claimed = False
