# SPDX-License-Identifier: Apache-2.0
"""The interface of a client connection, which tests can fake, and the framing of RFC 6455."""

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
    """One client's connection, as the parts of the gateway see it."""

    @property
    def conversation(self) -> Conversation:
        """State of the protocol."""
        ...

    @property
    def progress(self) -> DeliveryProgress:
        """Sequences sent and confirmed in each chat."""
        ...

    @property
    def address(self) -> str | None:
        """Address that the client is counted under; None if it is exempt."""
        ...

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait until the socket accepts them."""
        ...

    def now(self) -> int:
        """Return monotonic milliseconds."""
        ...

    def deliver(self, entry: Offer, frame: bytes, *, is_small: bool) -> None:
        """Send an entry now, or mark its chat as behind."""
        ...

    def notice(self, chat: ChatId, frame: bytes) -> None:
        """Send a frame without a sequence if the connection follows the chat."""
        ...

    def reconcile(self, heads: Mapping[ChatId, int]) -> bool:
        """Compare with the current heads of the user's chats and read missing entries from the log.

        Returns False before the chats of hello are known.
        """
        ...

    def wake(self) -> None:
        """Continue to read from the log if the window has room."""
        ...

    def perform(self, frame: ClientFrame) -> None:
        """Carry out a frame from the client."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def refuse(self, refusal: Refusal, request: str | None = None) -> None:
        """Send a refusal."""
        ...

    async def drained(self) -> None:
        """Wait until the socket accepts more bytes."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that is cancelled when the connection closes."""
        ...

    def tick(self) -> None:
        """Check deadlines; called about once a second."""
        ...

    def close(self, code: Close, retry_after_ms: int | None = None) -> None:
        """Send `bye` with the reason, then close."""
        ...


TEXT: Final = 0x81
PONG_FRAME: Final = 0x8A

_STANDARD_CLOSE_CODES: Final = frozenset({*range(1_000, 1_004), *range(1_007, 1_015)})


def header(kind: int, size: int) -> bytes:
    """Return the header of an unmasked frame with a payload of this size (RFC 6455, 5.2)."""
    if size < 126:
        return bytes((kind, size))
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2)
    return bytes((kind, 127)) + size.to_bytes(8)


def backlog(transport: WSTransport) -> int:
    """Return the bytes that the socket has not sent yet."""
    return transport.underlying_transport.get_write_buffer_size()


def may_be_sent(close_code: int) -> bool:
    """Return whether a close frame may carry this code (RFC 6455, 7.4, and later registrations)."""
    return close_code in _STANDARD_CLOSE_CODES or 3_000 <= close_code < 5_000
