# SPDX-License-Identifier: Apache-2.0
"""The entries of each chat that a client has, by the client's rule of the protocol. No I/O."""

from tests.support.client_socket import Frame


class ClientLogs:
    """Applies each entry once and in order, even if entries arrive repeatedly or in another
    order."""

    def __init__(self) -> None:
        self.have: dict[str, int] = {}
        """The sequence of the last applied entry, by chat."""
        self.entries: dict[str, list[Frame]] = {}
        """The applied entries, by chat, in the order of application."""
        self.repeats = 0
        """Number of entries that arrived although they were applied already."""
        self._ahead: dict[str, dict[int, Frame]] = {}

    def take(self, entry: Frame) -> int | None:
        """Apply an entry; if an earlier one is missing, return the sequence after which to
        fetch."""
        chat, sequence = entry["chat"], entry["sequence"]
        held = self.have.get(chat)
        if held is not None and sequence <= held:
            self.repeats += 1
        elif held is None or sequence == held + 1:
            self._apply(entry)
        else:
            self._ahead.setdefault(chat, {})[sequence] = entry
            return held
        return None

    def take_own(self, entry: Frame) -> None:
        """Apply an acknowledged message of this client, once all entries before it are applied."""
        chat, sequence = entry["chat"], entry["sequence"]
        held = self.have.get(chat)
        if held is not None and sequence == held + 1:
            self._apply(entry)
        elif held is None or sequence > held:
            self._ahead.setdefault(chat, {})[sequence] = entry

    def start_over(self, chat: str, head: int) -> None:
        """Drop the entries of a chat, and continue after its head."""
        self.forget(chat)
        self.have[chat] = head
        self.entries[chat] = []

    def forget(self, chat: str) -> None:
        """Forget a chat."""
        self.have.pop(chat, None)
        self.entries.pop(chat, None)
        self._ahead.pop(chat, None)

    def _apply(self, entry: Frame) -> None:
        chat, sequence = entry["chat"], entry["sequence"]
        ahead = self._ahead.get(chat, {})
        while True:
            self.have[chat] = sequence
            self.entries.setdefault(chat, []).append(entry)
            ahead.pop(sequence, None)
            sequence += 1
            if sequence not in ahead:
                return
            entry = ahead[sequence]
