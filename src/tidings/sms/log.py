# SPDX-License-Identifier: Apache-2.0
"""SMS for a trial: a line in the log shows number and text. Never use it in production."""

import logging

from tidings.ports.delivery import Sms

log = logging.getLogger("tidings.sms")


class LogSms:
    """SMS service that logs one line for each text."""

    async def send(self, phone_number: str, text: str) -> None:
        log.info("sms", extra={"action": "sms", "phone_number": phone_number, "text": text})


_conforms: type[Sms] = LogSms
