# SPDX-License-Identifier: Apache-2.0
"""A connection as its own parts see it: enough to test them without a socket."""

from collections.abc import Coroutine
from typing import Any, Protocol

from tidings.gateway.conversation import Conversation
from tidings.gateway.progress import Progress
from tidings.model.entries import Entry
from tidings.model.refusals import Refusal
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame


class Line(Protocol):
    """One client at the other end."""

    @property
    def conversation(self) -> Conversation:
        """The rules."""
        ...

    @property
    def progress(self) -> Progress:
        """How far it is in each chat."""
        ...

    def now(self) -> int:
        """Monotonic milliseconds."""
        ...

    def deliver(self, entry: Entry, frame: bytes, *, is_small: bool) -> None:
        """Take an entry, at once or later."""
        ...

    def wake(self) -> None:
        """There may be room for entries again."""
        ...

    def perform(self, frame: ClientFrame) -> None:
        """Do what the client asks for."""
        ...

    def tell(self, frame: bytes) -> None:
        """Write a frame."""
        ...

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        """Say no."""
        ...

    async def drained(self) -> None:
        """Wait until the socket takes more."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that ends with the connection."""
        ...

    def tick(self) -> None:
        """End what has to end; called about once a second."""
        ...

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        """Say bye and why, then close."""
        ...
