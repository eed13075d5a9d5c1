# SPDX-License-Identifier: Apache-2.0
"""Settings with which a tenant moderates a chat: frozen, and slow mode.

Both are checked against the chat's state when a message is appended. The process that appends a
message knows every earlier entry, so the check is exact.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from tidings.model.ids import UserKey
from tidings.model.limits import SECOND_MS
from tidings.model.refusals import ChatFrozen, SlowMode
from tidings.model.roles import Role

SLOW_MODE_SECONDS_MAX: Final = 3_600
SLOW_MODE_ENTRIES_MAX: Final = 4_096
"""Limit on the entries that a process reads to find out who must wait in slow mode, when it first
appends to the chat."""


class ChatSettings(msgspec.Struct, frozen=True):
    """Whether a chat is frozen, and how long each member waits between two messages."""

    frozen: bool = False
    slow_mode_seconds: int = 0
    """0 if the chat is not in slow mode."""


NO_SETTINGS = ChatSettings()
"""The settings of a new chat."""


def settings_of(frozen: bool | int, slow_mode_seconds: int) -> ChatSettings:
    """Return stored settings; always the same object if they are those of a new chat."""
    if not frozen and not slow_mode_seconds:
        return NO_SETTINGS
    return ChatSettings(bool(frozen), slow_mode_seconds)


SentTimes = Mapping[UserKey, int]
"""When users sent their last messages. Users who need not wait any more may be missing."""


def check_not_frozen(settings: ChatSettings) -> None:
    """Refuse a message, an edit, a reaction or a pin in a frozen chat."""
    if settings.frozen:
        raise ChatFrozen


def check_slow_mode(
    settings: ChatSettings, sent_at: SentTimes, user: UserKey, role: Role, now: int
) -> None:
    """Refuse a message if its sender has to wait. Admins and owners never have to."""
    if role != "member" or user not in sent_at:
        return
    wait = sent_at[user] + settings.slow_mode_seconds * SECOND_MS - now
    if wait > 0:
        raise SlowMode(f"wait {-(-wait // SECOND_MS)} seconds", wait)


def sent_times(settings: ChatSettings, sent_at: SentTimes, user: UserKey, now: int) -> SentTimes:
    """Return the times after a message of a user, without those that no longer matter."""
    since = now - settings.slow_mode_seconds * SECOND_MS
    return {**{other: at for other, at in sent_at.items() if at > since}, user: now}
