# SPDX-License-Identifier: Apache-2.0
"""Decide whether and when to reconnect after a connection has ended. No I/O."""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

import msgspec

PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 16


class Close(IntEnum):
    """Codes with which the server closes a socket, each for one reason."""

    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    RESTARTING = 1012
    OVERLOADED = 1013
    BAD_FRAME = 4400
    NOT_AUTHENTICATED = 4401
    FORBIDDEN = 4403
    SILENT = 4408
    TOO_MANY_CONNECTIONS = 4409
    FRAME_TOO_LARGE = 4413
    TOO_FAST = 4429


WORDS: Final = {
    Close.PROTOCOL_ERROR: "this client does not speak the WebSocket protocol",
    Close.INVALID_TEXT: "this client sent a text that is not UTF-8",
    Close.RESTARTING: "the server restarts",
    Close.OVERLOADED: "the server is overloaded, or this client too slow",
    Close.BAD_FRAME: "the server did not understand this client",
    Close.NOT_AUTHENTICATED: "the token is not (any more) good",
    Close.FORBIDDEN: "the token is for another user or device, or for none",
    Close.SILENT: "the server did not hear from this client",
    Close.TOO_MANY_CONNECTIONS: "the user has too many connections",
    Close.FRAME_TOO_LARGE: "a frame was too large",
    Close.TOO_FAST: "too many frames in too short a time",
}

FINAL: Final = frozenset(
    {
        Close.PROTOCOL_ERROR,
        Close.INVALID_TEXT,
        Close.BAD_FRAME,
        Close.FORBIDDEN,
        Close.FRAME_TOO_LARGE,
    }
)
"""After these codes a new connection would end in the same way, until something is changed."""


class Ended(msgspec.Struct, frozen=True):
    """How a connection, or an attempt to connect, ended."""

    reason: str
    code: int | None = None
    """The close code; None if there was none, because the network failed or nobody answered."""
    retry_after_ms: int | None = None
    """Time after which the client should reconnect, if the server sent one."""
    away_seconds: float = 0.0
    """Minimum time before the next attempt, from the server or proxy that refused the socket. The
    usual random pause is added, because other clients were told the same time."""
    is_final: bool = False
    """Whether the server explicitly told the client not to reconnect."""


class Retry(msgspec.Struct, frozen=True):
    """Reconnect after these seconds, with a new token if the server refused the last one."""

    seconds: float
    needs_token: bool = False


class Stop(msgspec.Struct, frozen=True):
    """Do not reconnect."""


class Backoff:
    """Random pauses between 0 and a maximum, which doubles with each failure from 1 to 60 s."""

    def __init__(
        self,
        jitter: Callable[[float, float], float],
        *,
        seconds_min: float = PAUSE_SECONDS_MIN,
        seconds_max: float = PAUSE_SECONDS_MAX,
    ) -> None:
        self._jitter = jitter
        self._seconds_min, self._seconds_max = seconds_min, seconds_max
        self._failures = 0
        self._refused_tokens = 0

    def after(self, ended: Ended) -> Retry | Stop:
        """Return what to do after a connection has ended."""
        if ended.code == Close.NOT_AUTHENTICATED:
            return self._with_a_new_token()
        if ended.is_final or ended.code in FINAL:
            return Stop()
        if ended.retry_after_ms is not None:
            return Retry(ended.retry_after_ms / 1_000)
        return Retry(ended.away_seconds + self._pause())

    def steady(self) -> None:
        """Make the next pause short again, because the connection has lasted for a while."""
        self._failures = self._refused_tokens = 0

    def _with_a_new_token(self) -> Retry:
        """Reconnect at once with a new token; pause if new tokens are refused, too."""
        self._refused_tokens += 1
        return Retry(self._pause() if self._refused_tokens > 1 else 0.0, needs_token=True)

    def _pause(self) -> float:
        longest = min(self._seconds_max, self._seconds_min * 2**self._failures)
        self._failures = min(self._failures + 1, _DOUBLINGS_MAX)
        return self._jitter(0, longest)


def retry_after_seconds(text: str | None, *, otherwise: float, most: float) -> float:
    """Return the seconds in a `Retry-After` header, at most `most`.

    Return `otherwise` if the header is missing or not a number, such as a date.
    """
    try:
        seconds = float(text or "")
    except ValueError:
        return otherwise
    return min(seconds, most) if seconds >= 0 else otherwise
