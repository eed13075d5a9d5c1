# SPDX-License-Identifier: Apache-2.0
"""A connection as its own parts see it: enough to test them without a socket."""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from tidings.gateway.conversation import Conversation
from tidings.gateway.offers import Offer
from tidings.gateway.progress import Progress
from tidings.model.ids import ChatId
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

    @property
    def address(self) -> str | None:
        """As whom the client is counted; None if it is not."""
        ...

    def now(self) -> int:
        """Monotonic milliseconds."""
        ...

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """Take an entry, at once or later."""
        ...

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Take something about a chat that has no sequence, if it follows the chat."""
        ...

    def reached(self, heads: Mapping[ChatId, int]) -> bool:
        """So far the user's logs reach: what is missing is read. False if it is too early."""
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
