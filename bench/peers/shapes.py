# SPDX-License-Identifier: Apache-2.0
"""The two shapes of the load: both users of a pair write and confirm rarely, or one writes and the
other confirms often."""

from typing import Final

import msgspec

from bench.peers.outcome import PAIRS


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A load on pairs and on a group, the same for every server."""

    name: str
    pairs: int
    both_write: bool
    window: int
    """Number of messages that each sender of a pair keeps unanswered."""
    members: int = 200
    senders: int = 4
    group_window: int
    """Number of messages that each sender of the group keeps unanswered."""
    receipt_every: int
    """Number of messages after which a user confirms them, on servers that have receipts."""

    def window_of(self, kind: str) -> int:
        """Return the number of messages that each sender keeps unanswered."""
        return self.window if kind == PAIRS else self.group_window

    @property
    def about(self) -> str:
        """Describe the load."""
        who = "both write" if self.both_write else "one writes"
        return (
            f"{self.pairs} pairs, {who}, {self.window} in flight; group of {self.members},"
            f" {self.senders} write, {self.group_window} in flight; a receipt every"
            f" {self.receipt_every} messages"
        )


BOTH_WRITE: Final = Shape(
    name="both write", pairs=100, both_write=True, window=8, group_window=16, receipt_every=100
)
"""As in `make bench`."""
ONE_WRITES: Final = Shape(
    name="one writes", pairs=50, both_write=False, window=8, group_window=4, receipt_every=16
)
SHAPES: Final = {shape.name: shape for shape in (BOTH_WRITE, ONE_WRITES)}
