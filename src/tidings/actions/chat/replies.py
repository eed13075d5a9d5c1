# SPDX-License-Identifier: Apache-2.0
"""The message that a new message answers."""

from tidings.actions.content.vault import Vault
from tidings.model.ids import ChatId
from tidings.ports.log import Log
from tidings.ports.world import Clock


class ReplyTarget:
    """The message that a new message answers.

    It is read before the reply is appended, because only the data key of its author shows whether
    it is erased. The store checks once more, as part of the append, that it is not redacted.
    """

    def __init__(self, log: Log, vault: Vault, clock: Clock, chat: ChatId, sequence: int) -> None:
        self._log = log
        self._vault = vault
        self._clock = clock
        self._chat = chat
        self._sequence = sequence
        self.is_known = False
        self.has_content = False

    async def look(self) -> None:
        """Read the message, unless it was read before.

        Raises:
            StoreUnavailable: The message or the data key of its author cannot be read now.
        """
        if self.is_known:
            return
        entry = await self._log.entry(self._chat, self._sequence)
        if entry is not None and entry.kind == "message":
            await self._vault.open([entry], self._clock.now())
            self.has_content = entry.gone is None
        self.is_known = True
