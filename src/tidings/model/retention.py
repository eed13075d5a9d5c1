# SPDX-License-Identifier: Apache-2.0
"""How long the content of messages is kept: the object `chats` in a tenant's settings.

Only the tenant decides, not the members of a chat. Retention follows from laws and contracts: a
member must not be able to make messages of others disappear early, or to keep them for longer.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from tidings.model.before_send import BeforeSend
from tidings.model.ids import CHAT, ChatId
from tidings.model.limits import DAY_MS, SECOND_MS
from tidings.model.refusals import Invalid

KEEP_DAYS_MAX: Final = 36_500
RULE_REFRESH_MS: Final = 2 * SECOND_MS
RULE_AGE_MS_MAX: Final = 5 * SECOND_MS
"""Age of a cached rule from which a send waits until the rule is read again."""
CACHED_RULES_MAX: Final = 10_000


class RetentionRule(msgspec.Struct, frozen=True):
    """Days for which the content of new messages is kept; None keeps it without a limit."""

    keep_days: int | None = None
    keep_days_by_chat: dict[str, int | None] = {}
    """Chats for which another number of days applies."""
    hook: BeforeSend | None = None
    """The tenant's hook. It is in another part of the settings, but every send needs both."""

    def lifetime_ms(self, chat: ChatId, ttl_ms: int | None) -> int | None:
        """Return the lifetime of a new message's content, at most `ttl_ms`; None if it has no
        limit."""
        days = self.keep_days_by_chat.get(chat, self.keep_days)
        if days is None:
            return ttl_ms
        kept = days * DAY_MS
        return kept if ttl_ms is None else min(kept, ttl_ms)


class _Chats(msgspec.Struct, forbid_unknown_fields=True):
    keep_days: int | None = None
    keep_days_by_chat: dict[str, int | None] = {}


KEEP_ALL: Final = RetentionRule()
"""The rule of tenants that have none. It is always this object, which is quick to recognise."""


def retention_in(settings: Mapping[str, object]) -> RetentionRule:
    """Return the value of `chats` in a tenant's settings.

    Raises:
        Invalid: `chats` is malformed.
    """
    try:
        given = msgspec.convert(settings.get("chats", {}), _Chats)
    except msgspec.ValidationError:
        detail = "chats may contain only keep_days and keep_days_by_chat, with numbers of days"
        raise Invalid(detail, "/chats") from None
    rule = RetentionRule(given.keep_days, given.keep_days_by_chat)
    _check_days(rule.keep_days, "/chats/keep_days")
    for chat, days in rule.keep_days_by_chat.items():
        if CHAT.fullmatch(chat) is None:
            raise Invalid("keep_days_by_chat: the names must be ids of chats", "/chats")
        _check_days(days, f"/chats/keep_days_by_chat/{chat}")
    return KEEP_ALL if rule == KEEP_ALL else rule


def _check_days(days: int | None, pointer: str) -> None:
    if days is not None and not 1 <= days <= KEEP_DAYS_MAX:
        raise Invalid(f"keep_days must be between 1 and {KEEP_DAYS_MAX}", pointer)
