# SPDX-License-Identifier: Apache-2.0
"""The protocol of one connection: turns frames into actions, without a socket, clock or await."""

from collections.abc import Collection
from enum import Enum
from typing import Final, get_args

import msgspec

from tidings.actions.identity.caller import UserCaller
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.ids import DEVICE, UserKey
from tidings.model.refusals import Invalid, OperationUnknown, Refusal, TooMany, TooManyWaiting
from tidings.wire.codes import Close
from tidings.wire.frames import (
    Auth,
    Away,
    ClientFrame,
    Fetch,
    Follow,
    Hello,
    Ping,
    Received,
    Refused,
    SendFrame,
    decode_client_frame,
)
from tidings.wire.mistakes import explain

_FRAMES = declared.frames.counts
_OPS = frozenset(kind.__struct_config__.tag for kind in get_args(ClientFrame))
_AUTOMATIC = frozenset({Auth, Away, Ping, Received})
"""Frames that a client sends by itself, even if nobody uses it."""


class State(Enum):
    """Phase of a connection."""

    GREETING = 1
    """Connected; the first frame has to be hello."""
    CHECKING = 2
    """Hello arrived; its token is being verified."""
    OPEN = 3
    CLOSED = 4


# A constant is read ten times as fast as a member of an enum.
_OPEN: Final = State.OPEN
_CLOSED: Final = State.CLOSED


class CloseRequest(msgspec.Struct, frozen=True):
    """Request to close the connection with this code."""

    code: Close


class _Envelope(msgspec.Struct):
    """The fields of an invalid frame that are needed to refuse it."""

    op: msgspec.Raw = msgspec.Raw(b"null")
    id: msgspec.Raw = msgspec.Raw(b"null")


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class Conversation:
    """Implements the protocol of one connection, without I/O."""

    def __init__(self, now: int) -> None:
        self.state = State.GREETING
        self.user: UserKey | None = None
        self.device: str | None = None
        self.connection = ""
        """The connection's id; empty before `welcome`."""
        self.caller: UserCaller | None = None
        """Identity that the connection's latest token proves."""
        self.client: str | None = None
        """Name and version of the client's program, as the client itself says."""
        self.is_by_heads = False
        """Whether the client gets the heads of its chats, and follows single chats on request."""
        self.is_away = False
        """Whether the client said that nobody looks at the device."""
        self.blocked: Collection[str] | None = None
        """Ids of the users whom the user blocks. Their entries are sent without content. None until
        the ids are read or a change of them is received."""
        self.has_totals = False
        """Whether the client gets the unread total of its user."""
        self.follows_erasures = False
        """Whether the device gets new erasures."""
        self.used_at = now
        """Monotonic time at which the client last asked for something, in milliseconds."""
        self.received_at: int | None = None
        """Monotonic time of the last `received`; None if there was none."""
        self.opened_at = now
        self._heard_at = now
        self._probed_at = now
        self._bad_frames = 0
        self._early: list[ClientFrame] = []
        """Frames that arrived between hello and welcome. They are carried out after welcome."""

    def receive(
        self, payload: bytes | memoryview, now: int
    ) -> ClientFrame | Refused | CloseRequest | None:
        """Decode a text frame; return a frame to carry out, an answer, a close request or None.

        `now` is monotonic, in milliseconds.
        """
        self._heard_at = now
        if self.state is _CLOSED:
            return None
        size = len(payload)
        if size > limits.FRAME_BYTES_MAX and size > self.frame_bytes_max:
            return CloseRequest(Close.FRAME_TOO_LARGE)
        try:
            frame: ClientFrame = decode_client_frame(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._bad_frame(payload, error)
        kind = type(frame)
        _FRAMES[kind] += 1
        if self.state is not _OPEN or kind is Hello:
            return self._receive_early(frame)
        self._bad_frames = 0
        if kind not in _AUTOMATIC:
            self.used_at = now
        elif kind is Received:
            self.received_at = now
        return frame

    @property
    def frame_bytes_max(self) -> int:
        """The length limit of the next frame. Hello names the last entry of each chat."""
        is_hello = self.state is State.GREETING
        return limits.HELLO_BYTES_MAX if is_hello else limits.FRAME_BYTES_MAX

    def _receive_early(self, frame: ClientFrame) -> ClientFrame | Refused | CloseRequest | None:
        """Handle hello, and frames that arrive before the connection is open."""
        if self.state is State.OPEN:
            return self._strike(Invalid("hello must be the first frame and be sent once"), None)
        if self.state is State.GREETING and isinstance(frame, Hello):
            self.state, self.used_at = State.CHECKING, self._heard_at
            self.client, self.is_by_heads = frame.client, frame.catch_up == "heads"
            self.has_totals = frame.totals
            return frame
        if self.state is State.GREETING or isinstance(frame, Hello):
            return CloseRequest(Close.NOT_AUTHENTICATED)
        if isinstance(frame, Ping):
            return frame
        if len(self._early) >= limits.EARLY_FRAMES_MAX:
            request = frame.id if isinstance(frame, SendFrame | Fetch | Follow) else None
            return refused(TooManyWaiting(), request)
        self._early.append(frame)
        return None

    def _bad_frame(self, payload: bytes | memoryview, error: Exception) -> Refused | CloseRequest:
        if not _is_utf8(payload):
            return CloseRequest(Close.INVALID_TEXT)
        if self.state is State.GREETING:
            return CloseRequest(Close.BAD_FRAME)
        try:
            envelope = _decode_envelope(payload)
            op, request = _text(envelope.op), _text(envelope.id)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._strike(Invalid("a frame must be one JSON object"), None)
        if op is not None and op not in _OPS:
            return refused(OperationUnknown(), request)
        return self._strike(Invalid(_reason(error)), request)

    def _strike(self, refusal: Refusal, request: str | None) -> Refused | CloseRequest:
        self._bad_frames += 1
        if self._bad_frames >= limits.BAD_FRAMES_MAX:
            return CloseRequest(Close.BAD_FRAME)
        return refused(refusal, request)

    def choose_device(self, fixed: str | None, named: str | None) -> str | Close:
        """Return the device named by the token or, if it names none, by hello.

        Returns a close code if both name different devices or the name is not valid.
        """
        if fixed is not None:
            return fixed if named in (None, fixed) else Close.FORBIDDEN
        if named is None or DEVICE.fullmatch(named) is None:
            return Close.BAD_FRAME
        return named

    def admit(self, caller: UserCaller, device: str) -> list[ClientFrame]:
        """Open the connection; return the frames that the client sent before `welcome`."""
        self.state = State.OPEN
        self.user, self.device, self.caller = caller.user, device, caller
        early, self._early = self._early, []
        return early

    def renew(self, caller: UserCaller) -> Close | None:
        """Use a new token; return a close code if it is for another user or device."""
        if caller.user != self.user or caller.device not in (None, self.device):
            return Close.FORBIDDEN
        self.caller = caller
        return None

    def overdue(self, now: int, wall: int) -> Close | None:
        """Return why the connection has to be closed now, or None.

        `now` is monotonic and shows how long the client was silent; `wall` is the time of day and
        shows whether the token has expired.
        """
        if self.state is State.GREETING:
            return Close.SILENT if now - self.opened_at > limits.HELLO_MS_MAX else None
        if self.state is State.CHECKING:
            is_stuck = now - self.opened_at > 2 * limits.HELLO_MS_MAX
            return Close.OVERLOADED if is_stuck else None
        if self.state is State.OPEN:
            if self.caller is None or wall >= self.caller.expires_at:
                return Close.NOT_AUTHENTICATED
            if now - self._heard_at > limits.SILENCE_MS_MAX:
                return Close.SILENT
        return None

    def is_idle(self, now: int) -> bool:
        """Return True if the connection may be closed for a newer one of the same device."""
        is_unused = self.is_away or now - self.used_at >= limits.IDLE_MS
        return self.state is State.OPEN and is_unused

    def heard(self, now: int) -> None:
        """Record that the client sent a ping or pong of the WebSocket protocol."""
        self._heard_at = self._probed_at = now

    def needs_probe(self, now: int) -> bool:
        """Return True if the client was silent for so long that the server should ping it."""
        if self.state is not State.OPEN:
            return False
        if now - max(self._heard_at, self._probed_at) < limits.PROBE_MS:
            return False
        self._probed_at = now
        return True


def refused(refusal: Refusal, request: str | None) -> Refused:
    """Convert a refusal to a frame."""
    wait_ms = refusal.retry_after_ms if isinstance(refusal, TooMany) else None
    return Refused(refusal.code, refusal.detail, refusal.retryable, request, wait_ms)


def _is_utf8(payload: bytes | memoryview) -> bool:
    """Return True if a text frame may carry the payload (RFC 6455, 8.1)."""
    try:
        str(payload, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _text(raw: msgspec.Raw) -> str | None:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) and len(value) <= 64 else None


def _reason(error: Exception) -> str:
    """Return the reason why a frame is invalid: the field and the rule, but never the value."""
    if isinstance(error, msgspec.ValidationError):
        return explain(str(error), "the frame")[0]
    return "the frame is not valid JSON"
