# SPDX-License-Identifier: Apache-2.0
"""Push for a trial: a line in the log names the users who would get a push notice."""

import logging
from collections.abc import Sequence

from tidings.ports.delivery import Push, PushNotice

log = logging.getLogger("tidings.push")


class LogPush:
    """Push that logs one line for each batch of notices; notices contain no content."""

    async def send(self, notices: Sequence[PushNotice]) -> None:
        log.info(
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


_conforms: type[Push] = LogPush
