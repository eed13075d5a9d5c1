# SPDX-License-Identifier: Apache-2.0
"""Push for trying things out: a line in the log says who would have been told."""

import logging
from collections.abc import Sequence

from tidings.ports.push import Push, PushNotice

log = logging.getLogger("tidings.push")


class LogPush:
    """Writes one line for each batch of notices. There is no content in it: notices have none."""

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
