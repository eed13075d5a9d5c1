# SPDX-License-Identifier: Apache-2.0
"""Texts by webhook: each is posted to an address of the operator's, who sends it on.

The body is JSON, `{"phone_number", "text"}`, and signed as every webhook is. Whatever is not
answered by a status from 200 to 299 within the deadline counts as not sent: 400 and 422 because of
the number or the text, all else because the webhook does not work.
"""

import logging
from collections.abc import Sequence
from typing import Final

import aiohttp
import msgspec

from tidings.model.refusals import SmsUnavailable
from tidings.ports.push import Sms, TextRejected
from tidings.ports.world import Clock
from tidings.wire.signatures import signed_headers

log = logging.getLogger("tidings.sms")

SEND_SECONDS_MAX: Final = 5.0
REJECTED: Final = frozenset({400, 422})
"""Answers that are about one text: they do not say that the webhook is down."""

_encode = msgspec.json.Encoder().encode


class TextBody(msgspec.Struct):
    """The body of a request."""

    phone_number: str
    text: str


class WebhookSms:
    """Posts texts, each once."""

    def __init__(
        self,
        *,
        url: str,
        secrets: Sequence[bytes],
        clock: Clock,
        seconds_max: float = SEND_SECONDS_MAX,
    ) -> None:
        """Signs with each of the secrets, the newest first."""
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
                "the webhook does not take texts", extra={"action": "sms_failed", "reason": reason}
            )
            raise TextRejected if status in REJECTED else SmsUnavailable

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._http.close()


_conforms: type[Sms] = WebhookSms
