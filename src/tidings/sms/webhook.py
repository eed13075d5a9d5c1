# SPDX-License-Identifier: Apache-2.0
"""SMS by webhook: each text is posted to a URL of the operator, who sends it to the phone.

The body is JSON, `{"phone_number", "text"}`, and signed like every webhook. A text is sent if the
answer has a status from 200 to 299 and arrives before the deadline. A status of 400 or 422 rejects
the number or the text; everything else means that the webhook does not work.
"""

import logging
from collections.abc import Sequence
from typing import Final

import aiohttp
import msgspec

from tidings.model.refusals import SmsUnavailable
from tidings.ports.delivery import Sms, TextRejected
from tidings.ports.world import Clock
from tidings.wire.signatures import signed_headers

log = logging.getLogger("tidings.sms")

SEND_SECONDS_MAX: Final = 5.0
REJECTED: Final = frozenset({400, 422})
"""Statuses that concern one text and do not mean that the webhook is down."""

_encode = msgspec.json.Encoder().encode


class TextBody(msgspec.Struct):
    """Body of a request to the webhook."""

    phone_number: str
    text: str


class WebhookSms:
    """SMS service that posts each text once."""

    def __init__(
        self,
        *,
        url: str,
        secrets: Sequence[bytes],
        clock: Clock,
        seconds_max: float = SEND_SECONDS_MAX,
    ) -> None:
        """Sign with each of the secrets, the newest first."""
        self._url = url
        self._secrets = secrets
        self._clock = clock
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=seconds_max),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(self, phone_number: str, text: str) -> None:
        body = _encode(TextBody(phone_number, text))
        headers = signed_headers(self._secrets, self._clock.now(), body)
        try:
            async with self._http.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as response:
                status, reason = response.status, f"status {response.status}"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status, reason = 0, type(error).__name__
        if not 200 <= status < 300:
            log.warning(
                "the webhook did not accept a text",
                extra={"action": "sms_failed", "reason": reason},
            )
            raise TextRejected if status in REJECTED else SmsUnavailable

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()


_conforms: type[Sms] = WebhookSms
