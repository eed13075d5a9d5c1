# SPDX-License-Identifier: Apache-2.0
"""Send text messages through a webhook of the operator, or through Amazon SNS. Each is tried once.

The texts are written in `actions.identity.code_sending`.

The webhook gets the JSON body `{"phone_number", "text"}`, signed like every webhook. A text counts
as sent if the answer has a status from 200 to 299 and arrives before the deadline. A status of 400
or 422 rejects the number or the text; everything else means that the webhook does not work.

SNS gets a form and answers in XML. Only the status and the error code of the answer are read.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

import aiohttp
import msgspec

from tidings.aws.signing import Service
from tidings.aws.transport import Poster, RequestError, find_endpoint, open_poster
from tidings.model.refusals import SmsUnavailable
from tidings.ports.delivery import Sms, TextRejected
from tidings.ports.world import Clock
from tidings.wire.events import signed_headers

SNS: Final = Service("sns", "", content_type="application/x-www-form-urlencoded; charset=utf-8")
VERSION: Final = "2010-03-31"
CONNECTIONS_MAX: Final = 16
SNS_REJECTED: Final = frozenset({"InvalidParameter", "InvalidParameterValue", "OptedOut"})
"""Error codes that concern only one number, and do not mean that SNS is down."""

_ERROR_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,100})</Code>")

log = logging.getLogger("tidings.sms")

SEND_SECONDS_MAX: Final = 5.0
WEBHOOK_REJECTED: Final = frozenset({400, 422})
"""Statuses that concern only one text, and do not mean that the webhook is down."""

_encode = msgspec.json.Encoder().encode


class SnsSms:
    """SMS service that publishes each text to SNS once."""

    def __init__(
        self, poster: Poster, sender: str | None, seconds_max: float = SEND_SECONDS_MAX
    ) -> None:
        self._poster = poster
        self._sender = sender
        self._seconds_max = seconds_max

    async def send(self, phone_number: str, text: str) -> None:
        form = urlencode(self._fields(phone_number, text)).encode()
        until = asyncio.get_running_loop().time() + self._seconds_max
        try:
            status, _, answer = await self._poster.post("Publish", form, until)
        except RequestError as trouble:
            reason, is_rejected = type(trouble).__name__, False
        else:
            if status == 200:
                return
            code = _ERROR_CODE.search(answer)
            reason = code[1].decode() if code else f"status {status}"
            is_rejected = reason in SNS_REJECTED
        log.warning("SNS did not accept a text", extra={"action": "sms_failed", "reason": reason})
        raise TextRejected if is_rejected else SmsUnavailable

    def _fields(self, phone_number: str, text: str) -> dict[str, str]:
        attributes = {"AWS.SNS.SMS.SMSType": "Transactional"}
        if self._sender is not None:
            attributes["AWS.SNS.SMS.SenderID"] = self._sender
        fields = {
            "Action": "Publish",
            "Version": VERSION,
            "PhoneNumber": phone_number,
            "Message": text,
        }
        for number, (name, value) in enumerate(attributes.items(), 1):
            entry = f"MessageAttributes.entry.{number}"
            fields[f"{entry}.Name"] = name
            fields[f"{entry}.Value.DataType"] = "String"
            fields[f"{entry}.Value.StringValue"] = value
        return fields


@asynccontextmanager
async def open_sns(
    *, endpoint: str | None, region: str, sender: str | None, clock: Clock
) -> AsyncIterator[SnsSms]:
    """Open a client for SNS, at the `endpoint` if one is given, else on AWS.

    Raises:
        SetupError: No endpoint is given, and the SDK finds no credentials for AWS.
    """
    async with open_poster(
        endpoint=endpoint or await find_endpoint("sns", region),
        region=region,
        service=SNS,
        clock=clock,
        needs_credentials=endpoint is None,
        connections=CONNECTIONS_MAX,
        answer_seconds_max=SEND_SECONDS_MAX,
    ) as poster:
        yield SnsSms(poster, sender)


_sns_conforms: type[Sms] = SnsSms


class TextBody(msgspec.Struct):
    """Body of a request to the webhook."""

    phone_number: str
    text: str


class WebhookSms:
    """SMS service that posts each text to a webhook once."""

    def __init__(
        self,
        *,
        url: str,
        secrets: Sequence[bytes],
        clock: Clock,
        seconds_max: float = SEND_SECONDS_MAX,
    ) -> None:
        """Create the service; each request is signed with every secret, the newest first."""
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
            raise TextRejected if status in WEBHOOK_REJECTED else SmsUnavailable

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()


_conforms: type[Sms] = WebhookSms
