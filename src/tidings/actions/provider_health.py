# SPDX-License-Identifier: Apache-2.0
"""Whether the provider of texts works: a circuit breaker over what became of the last ones."""

import logging
import time
from collections.abc import Callable

from tidings.model import limits

log = logging.getLogger("tidings.sms")


class ProviderHealth:
    """Says that the provider is down after several failures in a row, for some seconds at a time.

    When these are over, texts are tried again. The first that is taken ends the outage, and the
    first that is not begins the next seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is in seconds and never goes back."""
        self._now = now
        self._failures = 0
        self._down_until = 0.0

    def down_ms(self) -> int:
        """For how long no text is tried; 0 if they are."""
        left = self._down_until - self._now()
        return max(0, round(left * limits.SECOND_MS))

    def worked(self) -> None:
        """A text was taken."""
        if self._failures >= limits.SMS_FAILURES_MAX:
            log.warning("texts can be sent again", extra={"action": "sms_up"})
        self._failures = 0
        self._down_until = 0.0

    def failed(self) -> None:
        """A text was not taken, and not because of what it was."""
        self._failures += 1
        if self._failures < limits.SMS_FAILURES_MAX:
            return
        self._down_until = self._now() + limits.SMS_DOWN_MS / limits.SECOND_MS
        if self._failures == limits.SMS_FAILURES_MAX:
            log.error("texts cannot be sent", extra={"action": "sms_down"})
