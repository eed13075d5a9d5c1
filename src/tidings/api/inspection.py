# SPDX-License-Identifier: Apache-2.0
"""A tenant's operations to inspect users and chats; the content of messages stays sealed until the
tenant states a reason."""

from typing import Annotated, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.chat.unread import TOTAL_CHATS_MAX
from tidings.actions.identity.caller import Caller
from tidings.actions.identity.users import check_visible_text
from tidings.actions.verbs import ChatVerbs, LoginVerbs
from tidings.api.auth import SessionList, session_record
from tidings.api.callers import IdentityVerbs
from tidings.api.fields import Limit, Sequence
from tidings.api.members import MemberList
from tidings.api.operations import Audited, operation
from tidings.api.reading import EntriesAfter, EntriesQuery
from tidings.api.requests import Body
from tidings.api.users import UserRecord, user_record
from tidings.model import limits
from tidings.model.chats import ChatState, ChatType
from tidings.model.ids import ChatId, rfc3339
from tidings.model.refusals import ChatNotFound, TenantNotFound, UserNotFound
from tidings.ports.log import Page
from tidings.wire.records import UnreadTotalRecord, entry_record, member_record, total_fields

TAG: Final = "Inspection"

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
"""Checked before the request is recorded, because the audit trail records the text."""


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}",
    tag=TAG,
    summary="Get a user as the tenant",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def get_tenant_user(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs
) -> UserRecord:
    """Return a user with all fields that the list of users has."""
    user = await identity.get_user(caller, tenant, user_id)
    (shown,) = await identity.last_seen.seen_by_tenant([user])
    return user_record(shown)


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}/sessions",
    tag=TAG,
    summary="List the sessions of a user",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
)
async def list_user_sessions(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs, logins: LoginVerbs
) -> SessionList:
    """Return the sessions of a user, newest first. A device that has only a token from the tenant
    has no session. `current` is always false."""
    user = await identity.get_user(caller, tenant, user_id)
    sessions = await logins.sessions.of(user.user)
    return SessionList([session_record(session, None) for session in sessions])


@operation(
    "GET",
    "/v1/tenants/{tenant}/users/{user_id}/unread",
    tag=TAG,
    summary="Count everything that a user has not read",
    key="tenant",
    refusals=(TenantNotFound, UserNotFound),
    cost=rate_limits.chat_list_cost(TOTAL_CHATS_MAX),
)
async def get_user_unread(
    caller: Caller, tenant: str, user_id: str, identity: IdentityVerbs, verbs: ChatVerbs
) -> UnreadTotalRecord:
    """Return the numbers that the user gets from `GET /v1/unread`."""
    user = await identity.get_user(caller, tenant, user_id)
    return UnreadTotalRecord(**total_fields(await verbs.count_total(user.user)))


class InspectedChat(msgspec.Struct, kw_only=True):
    """A chat, as its tenant sees it: without content. `head` is the sequence of the last entry."""

    chat_id: str
    type: ChatType
    name: str | None
    member_count: int
    message_count: int
    head: int
    last_activity_at: str
    frozen: bool
    slow_mode_seconds: int


@operation(
    "GET",
    "/v1/tenants/{tenant}/chats/{chat_id}",
    tag=TAG,
    summary="Get a chat as the tenant",
    key="tenant",
    refusals=(TenantNotFound, ChatNotFound),
)
async def inspect_chat(
    caller: Caller, tenant: str, chat: ChatId, verbs: ChatVerbs
) -> InspectedChat:
    """Return a chat of the tenant, without content."""
    return inspected_chat(await verbs.inspect.state(caller, tenant, chat))


@operation(
    "GET",
    "/v1/tenants/{tenant}/chats/{chat_id}/members",
    tag=TAG,
    summary="List the members of a chat as the tenant",
    key="tenant",
    refusals=(TenantNotFound, ChatNotFound),
    cost=limits.MEMBER_LIST_TOKENS,
)
async def inspect_members(
    caller: Caller, tenant: str, chat: ChatId, verbs: ChatVerbs
) -> MemberList:
    """Return all members of a chat, with their roles and receipts."""
    members = await verbs.inspect.members(caller, tenant, chat)
    return MemberList([member_record(shown) for shown in members.values()])


@operation(
    "GET",
    "/v1/tenants/{tenant}/chats/{chat_id}/entries",
    tag=TAG,
    summary="Read the log of a chat as the tenant, without content",
    key="tenant",
    refusals=(TenantNotFound, ChatNotFound),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def inspect_entries(
    caller: Caller, tenant: str, chat: ChatId, asked: EntriesQuery, verbs: ChatVerbs
) -> EntriesAfter:
    """Return a page of the log, oldest first: all entries, but without the content of messages and
    without reactions."""
    page = await verbs.inspect.sealed_entries(
        caller, tenant, chat, after=asked.after, limit=asked.limit
    )
    return _entries(page)


class Unsealing(Body, frozen=True, kw_only=True):
    """Why the tenant reads the content of others, and which entries: those that follow the sequence
    `after`."""

    reason: Reason
    after: Sequence = 0
    limit: Limit = limits.PAGE_DEFAULT


@operation(
    "POST",
    "/v1/tenants/{tenant}/chats/{chat_id}/unseal",
    tag=TAG,
    summary="Read the log of a chat as the tenant, with content",
    key="tenant",
    refusals=(TenantNotFound, ChatNotFound),
    audit=Audited(quoted=("reason", "after", "limit")),
    body_cost=lambda unsealing: rate_limits.page_cost(unsealing.limit),
)
async def unseal_entries(
    caller: Caller, tenant: str, chat: ChatId, data: Unsealing, verbs: ChatVerbs
) -> EntriesAfter:
    """Return a page of the log with content, oldest first. The audit trail records the reason
    before anything is read."""
    check_visible_text("reason", data.reason)
    page = await verbs.inspect.entries(caller, tenant, chat, after=data.after, limit=data.limit)
    return _entries(page)


def _entries(page: Page) -> EntriesAfter:
    entries = [entry_record(entry) for entry in page.entries]
    return EntriesAfter(entries, page.next, page.head.sequence)


def inspected_chat(state: ChatState) -> InspectedChat:
    """Return the record of a chat, as its tenant sees it."""
    return InspectedChat(
        chat_id=state.chat_id,
        type=state.type,
        name=state.name,
        member_count=len(state.members),
        message_count=state.number,
        head=state.head,
        last_activity_at=rfc3339(state.active_at),
        frozen=state.settings.frozen,
        slow_mode_seconds=state.settings.slow_mode_seconds,
    )


OPERATIONS: Final = (
    get_tenant_user,
    list_user_sessions,
    get_user_unread,
    inspect_chat,
    inspect_members,
    inspect_entries,
    unseal_entries,
)
