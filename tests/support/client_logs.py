# SPDX-License-Identifier: Apache-2.0
"""What a client holds of each chat, by the client rule of the protocol. No I/O."""

from tests.support.client_socket import Frame


class ClientLogs:
    """Applies entries in order and once, whatever order and however often they come."""

    def __init__(self) -> None:
        self.have: dict[str, int] = {}
        """The last entry applied, by chat."""
        self.entries: dict[str, list[Frame]] = {}
        """The entries applied, by chat, in the order of application."""
        self.repeats = 0
        """Entries that came although they were held already."""
        self._ahead: dict[str, dict[int, Frame]] = {}

    def take(self, entry: Frame) -> int | None:
        """Apply an entry; if something before it is missing, the place to fetch after."""
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
        """The client's own message was acknowledged: it counts where it stands, not before."""
        chat, sequence = entry["chat"], entry["sequence"]
        held = self.have.get(chat)
        if held is not None and sequence == held + 1:
            self._apply(entry)
        elif held is None or sequence > held:
            self._ahead.setdefault(chat, {})[sequence] = entry

    def start_over(self, chat: str, head: int) -> None:
        """Drop what is held of a chat and go on from its head."""
        self.forget(chat)
        self.have[chat] = head
        self.entries[chat] = []

    def forget(self, chat: str) -> None:
        """Hold nothing of a chat any more."""
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
