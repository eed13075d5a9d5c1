# SPDX-License-Identifier: Apache-2.0
"""Converts refusals to HTTP statuses, and defines the close codes of sockets."""

from enum import IntEnum
from typing import Final

from tidings.model import file_refusals, refusals

_STATUS: Final[tuple[tuple[type[refusals.Refusal], int], ...]] = (
    (refusals.Unauthenticated, 401),
    (refusals.Forbidden, 403),
    (refusals.NotFound, 404),
    (refusals.Invalid, 400),
    (refusals.TooLarge, 413),
    (file_refusals.AttachmentTypeRefused, 415),
    (file_refusals.RangeRefused, 416),
    (file_refusals.AttachmentGone, 410),
    (file_refusals.AttachmentLost, 410),
    (refusals.Conflict, 409),
    (refusals.ChatBusy, 429),
    (refusals.InboxBusy, 429),
    (refusals.TooMany, 429),
    (refusals.Unavailable, 503),
)

RETRY_AFTER_SECONDS: Final = 1


def http_status(refusal: refusals.Refusal) -> int:
    """Return the HTTP status of a refusal."""
    return next(status for kind, status in _STATUS if isinstance(refusal, kind))


class Close(IntEnum):
    """Reasons for which the server closes a socket."""

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


RECONNECT: Final = frozenset(
    {
        Close.RESTARTING,
        Close.OVERLOADED,
        Close.SILENT,
        Close.TOO_MANY_CONNECTIONS,
        Close.TOO_FAST,
    }
)
"""Codes after which a client reconnects automatically. After any other code, a new connection would
be closed again unless something changes."""
