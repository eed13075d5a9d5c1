# SPDX-License-Identifier: Apache-2.0
"""Checks the ids in an export against the alphabets that the server itself enforces.

Engines build keys from ids. An id that no request could have stored must not be imported either.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

import msgspec

from tidings.model import ids
from tidings.model.entries import Person
from tidings.model.ids import UserKey, tenant_of
from tidings.model.notifications import CATEGORY, INBOX
from tidings.ports.export_facts import (
    AuditFact,
    ChatFact,
    EntryFact,
    Fact,
    MemberFact,
    ReactionFact,
    SendKeyFact,
)
from tidings.ports.export_inbox_facts import DeadLetterFact, JobFact

_USER: Final = re.compile(f"{ids.TENANT.pattern}:{ids.USER.pattern}")
_SENDER: Final = re.compile(rf"{_USER.pattern}|{ids.TENANT.pattern}:{ids.TENANT_ITSELF}")
_AUTHOR: Final = re.compile(rf"{ids.TENANT.pattern}:(?:{ids.USER.pattern}|\*)")
"""A user, or `*` for the tenant's own key, which seals its inboxes."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
"""Names made by the server: ULIDs, digests, random marks."""

_PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "tenant": ids.TENANT,
    "user_id": _USER,
    "sender": _SENDER,
    "inviter": _USER,
    "creator": _USER,
    "author": _AUTHOR,
    "chat_id": ids.CHAT,
    "session_id": ids.SESSION,
    "client_message_id": ids.CLIENT_MESSAGE_ID,
    "inbox": INBOX,
    "category": CATEGORY,
    "key_id": _NAME,
    "master_key_id": _NAME,
    "notification_id": _NAME,
    "aside_id": _NAME,
    "entry_id": _NAME,
    "subject": _NAME,
    "mark": _NAME,
}

Check = Callable[[str], object]


def bad_id(fact: Fact, chat: ChatFact | None) -> str | None:
    """Return the name of a field with a malformed id or an id of another tenant, or None."""
    for name, is_good in _checks(type(fact)):
        value = getattr(fact, name)
        if value is None or (isinstance(fact, AuditFact) and not value):
            continue  # an audit entry about the deployment names no tenant
        if not is_good(value):
            return name
    if isinstance(fact, DeadLetterFact):
        return bad_id(fact.job, None)
    if isinstance(fact, JobFact) and not all(ids.USER.fullmatch(user) for user in fact.users):
        return "users"
    if isinstance(fact, EntryFact) and not all(map(_is_person, fact.people)):
        return "people"
    if any(tenant_of(user) != tenant for user, tenant in _of_one_tenant(fact, chat)):
        return "tenant"
    return None


@cache
def _checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, Check], ...]:
    """Return the fields to check in facts of this kind, each with its check."""
    return tuple(
        (name, _PATTERNS[name].fullmatch) for name in kind.__struct_fields__ if name in _PATTERNS
    )


def _is_person(person: Person) -> bool:
    return _USER.fullmatch(person.user) is not None


def _of_one_tenant(fact: Fact, chat: ChatFact | None) -> Iterable[tuple[UserKey, str]]:
    """Yield users, each with the tenant that it must belong to."""
    match fact:
        case ChatFact():
            yield fact.creator, fact.tenant
        case MemberFact() | ReactionFact() if chat is not None:
            yield fact.user_id, chat.tenant
        case EntryFact() if chat is not None:
            yield fact.sender, chat.tenant
            for person in fact.people:
                yield person.user, chat.tenant
        case SendKeyFact() if chat is not None:
            yield fact.sender, chat.tenant
        case _:
            return
