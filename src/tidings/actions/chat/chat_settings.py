# SPDX-License-Identifier: Apache-2.0
"""Freeze a chat or put it into slow mode as its tenant; find out who must wait in slow mode."""

import msgspec

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import change
from tidings.actions.identity.caller import Caller, require_tenant
from tidings.model.chat_settings import SLOW_MODE_SECONDS_MAX, ChatSettings
from tidings.model.chats import ChatState
from tidings.model.entries import Entry
from tidings.model.formats import NOT_YET
from tidings.model.ids import ChatId, tenant_itself
from tidings.model.refusals import ChatNotFound, Invalid, Unavailable
from tidings.ports.log import Log


class ChangeSettings(msgspec.Struct, frozen=True):
    """Change the settings of any chat of the tenant."""

    appender: Appender
    log: Log

    async def __call__(
        self,
        caller: Caller,
        tenant: str,
        chat: ChatId,
        *,
        frozen: bool | None,
        slow_mode_seconds: int | None,
    ) -> ChatSettings:
        """Change the settings that are not None, and return all settings of the chat.

        The entry names the tenant as its sender. There is none if nothing changes.

        Raises:
            ChatNotFound: The tenant has no such chat.
        """
        require_tenant(caller, tenant)
        most = SLOW_MODE_SECONDS_MAX
        if slow_mode_seconds is not None and not 0 <= slow_mode_seconds <= most:
            raise Invalid(f"slow_mode_seconds: must be between 0 and {most}", "/slow_mode_seconds")
        if not self.log.may_append("settings"):
            raise Unavailable(NOT_YET)
        wanted = {"frozen": frozen, "slow_mode_seconds": slow_mode_seconds}
        changed = {name: value for name, value in wanted.items() if value is not None}
        settings = ChatSettings()

        def decide(state: ChatState, _: int) -> list[Entry]:
            nonlocal settings
            if state.tenant != tenant:
                raise ChatNotFound
            settings = msgspec.structs.replace(state.settings, **changed)
            if settings == state.settings:
                return []
            sender = tenant_itself(tenant)
            return [Entry(chat_id=chat, kind="settings", sender=sender, settings=settings)]

        await change(self.appender, chat, decide)
        return settings
