# SPDX-License-Identifier: Apache-2.0
"""A connection as its own parts see it: enough to test them without a socket."""

from collections.abc import Coroutine, Mapping
from typing import Any, Final, Protocol

from picows import WSTransport

from tidings.gateway.conversation import Conversation
from tidings.gateway.progress import DeliveryProgress, Offer
from tidings.model.ids import ChatId
from tidings.model.refusals import Refusal
from tidings.wire.codes import Close
from tidings.wire.frames import ClientFrame


class ClientConnection(Protocol):
    """One client at the other end."""

    @property
    def conversation(self) -> Conversation:
        """The rules."""
        ...

    @property
    def progress(self) -> DeliveryProgress:
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

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """So far the user's logs reach: what is missing is read. False if it is too early."""
        ...

    def wake(self) -> None:
        """There may be room for entries again."""
        ...

    def perform(self, frame: ClientFrame) -> None:
        """Do what the client asks for."""
        ...

    def send(self, frame: bytes) -> None:
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


TEXT: Final = 0x81
PONG_FRAME: Final = 0x8A

_STANDARD_CLOSE_CODES: Final = frozenset({*range(1_000, 1_004), *range(1_007, 1_015)})


def header(kind: int, size: int) -> bytes:
    """What stands before a payload of this size, as a server writes it (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((kind, size))
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2)
    return bytes((kind, 127)) + size.to_bytes(8)


def backlog(transport: WSTransport) -> int:
    """How much the socket has yet to take."""
    return transport.underlying_transport.get_write_buffer_size()


def may_be_sent(close_code: int) -> bool:
    """Whether a close frame may hold this code (RFC 6455, 7.4, and what was registered since)."""
    return close_code in _STANDARD_CLOSE_CODES or 3_000 <= close_code < 5_000
