# SPDX-License-Identifier: Apache-2.0
"""SMS through Amazon SNS: one signed Publish for each text.

SNS speaks forms and XML; only the status and the error code of its answers are read.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode

from tidings.aws.signing import Service
from tidings.aws.transport import Poster, RequestError, find_endpoint, open_poster
from tidings.model.refusals import SmsUnavailable
from tidings.ports.delivery import Sms, TextRejected
from tidings.ports.world import Clock

log = logging.getLogger("tidings.sms")

SNS: Final = Service("sns", "", content_type="application/x-www-form-urlencoded; charset=utf-8")
VERSION: Final = "2010-03-31"
SEND_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 16
REJECTED: Final = frozenset({"InvalidParameter", "InvalidParameterValue", "OptedOut"})
"""Errors that concern one number and do not mean that SNS is down."""

_ERROR_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,100})</Code>")


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
            is_rejected = reason in REJECTED
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
    """Open a client of SNS, on AWS if no endpoint is given.

    Raises:
        NoCredentials: No endpoint is given, and the SDK finds no credentials for AWS.
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


_conforms: type[Sms] = SnsSms
