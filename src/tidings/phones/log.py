# SPDX-License-Identifier: Apache-2.0
"""Push and SMS services for trials, which only write to the log. Never use them in production."""

import logging
from collections.abc import Sequence

from tidings.metrics import declared
from tidings.ports.delivery import MessageNotice, NoticesEnded, Push, Sms

sms_log = logging.getLogger("tidings.sms")

push_log = logging.getLogger("tidings.push")


class LogSms:
    """SMS service that logs one line for each text message instead of sending it."""

    async def send(self, phone_number: str, text: str) -> None:
        sms_log.info("sms", extra={"action": "sms", "phone_number": phone_number, "text": text})


_sms_conforms: type[Sms] = LogSms


class LogPush:
    """Push service that logs one line for each batch of notices. Notices have no content."""

    def __init__(self, ended: NoticesEnded) -> None:
        self._ended = ended

    async def send(self, notices: Sequence[MessageNotice]) -> None:
        declared.push.counts["sent"] += 1
        self._ended(notices, "sent", "")
        push_log.info(
            "push",
            extra={
                "action": "push",
                "notices": [
                    {
                        "chat": notice.chat_id,
                        "sequence": notice.sequence,
                        "sender": notice.sender,
                        "users": list(notice.users),
                    }
                    for notice in notices
                ],
            },
        )


_push_conforms: type[Push] = LogPush
