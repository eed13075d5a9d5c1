# SPDX-License-Identifier: Apache-2.0
"""Converts times between milliseconds since 1970, used internally, and RFC 3339 for clients."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from tidings.model.limits import SECOND_MS

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def rfc3339(time_ms: int) -> str:
    """Return a time as RFC 3339 in UTC, with milliseconds."""
    seconds, milliseconds = divmod(time_ms, 1_000)
    return f"{_to_the_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    # Many messages share a second: 0.2 µs with the cache, 1.1 µs without.
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def revoked_up_to(now: int, before: int | None) -> int:
    """Return the time up to which a user's tokens are revoked; `before` is the last such time.

    Tokens are dated to the second. A token made right after a revocation is dated to the next full
    second, which may be in the future. Another revocation must include that token.
    """
    return now if before is None else max(now, (before // SECOND_MS + 1) * SECOND_MS)


def from_rfc3339(text: str) -> int:
    """Return the time in a text from a client.

    Raises:
        ValueError: The text is not RFC 3339, has no offset from UTC, or is out of range.
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError("must be a time like 2030-01-31T12:00:00.000Z")
    moment = datetime.fromisoformat(text)
    time_ms = (moment - EPOCH) // timedelta(milliseconds=1)
    if not 0 <= time_ms <= TIME_MS_MAX:
        raise ValueError("must be a time between 1970 and 9999")
    return time_ms
