# SPDX-License-Identifier: Apache-2.0
"""Sends claimed notices to devices, and to the push service of the operator, if there is one.

The operator's service gets one notice for all users whom a message concerns, so notices are
gathered for a moment.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tidings.actions.push.sending import SendPush
from tidings.model.ids import ChatId, UserKey, tenant_of, user_key
from tidings.ports.delivery import MessageNotice, Push
from tidings.ports.push import PushNotice
from tidings.tasks import Tasks

GATHER_SECONDS: Final = 0.2

_Message = tuple[ChatId, int, UserKey]


class OperatorPush:
    """Sends each notice to the devices of its user, and gathers it for the operator's service."""

    def __init__(
        self,
        send: SendPush,
        service: Push | None,
        is_wanted: Callable[[UserKey, PushNotice], Awaitable[bool]],
    ) -> None:
        """Set up the sender; `is_wanted` decides whether another attempt is made."""
        self._send = send
        self._is_wanted = is_wanted
        self._service = service
        self._gathered: dict[_Message, list[UserKey]] = {}
        self._tasks = Tasks("operator push")

    async def close(self) -> None:
        """Send what was gathered."""
        await self._flush()
        await self._tasks.close()

    async def send(self, user: UserKey, notice: PushNotice) -> None:
        """Send a notice of a message."""
        if self._service is not None:
            self._gather(user, notice)
        sent = await self._send(user, notice, still=partial(self._is_wanted, user, notice))
        if not sent and self._service is None:
            self._send.journal.unregistered(user, notice)

    def _gather(self, user: UserKey, notice: PushNotice) -> None:
        sender = user_key(tenant_of(user), notice.data["sender_id"])
        message = ChatId(notice.data["chat_id"]), int(notice.data["sequence"]), sender
        if not self._gathered:
            loop = asyncio.get_running_loop()
            loop.call_later(GATHER_SECONDS, lambda: self._tasks.start(self._flush()))
        users = self._gathered.setdefault(message, [])
        users.append(user)

    async def _flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        notices = [
            MessageNotice(chat_id=chat, sequence=sequence, sender=sender, users=tuple(users))
            for (chat, sequence, sender), users in gathered.items()
        ]
        if notices and self._service is not None:
            await self._service.send(notices)
