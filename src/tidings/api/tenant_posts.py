# SPDX-License-Identifier: Apache-2.0
"""A tenant's operations to create chats and post messages, in a user's name or in its own."""

from typing import Final

from tidings.actions import rate_limits
from tidings.actions.chat.as_tenant import named_by_tenant
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.identity.caller import Caller
from tidings.actions.verbs import ChatVerbs
from tidings.api.chats import NewChat
from tidings.api.fields import NamedSender
from tidings.api.inspection import InspectedChat, inspected_chat
from tidings.api.messages import MessageBody, post
from tidings.api.operations import Answer, Audited, operation
from tidings.model.entries import Entry, SendOptions
from tidings.model.file_refusals import AttachmentUnknown, AttachmentUsed
from tidings.model.ids import ChatId
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    ContentEmpty,
    ContentTooLarge,
    LimitReached,
    MemberNotFound,
    MentionUnknown,
    QuotaReached,
    ReplyUnknown,
    RequestConflict,
    SendConflict,
    TenantNotFound,
    UserDeleted,
    UserNotFound,
)
from tidings.wire.records import MessageRecord, message_record, sent_record

TAG: Final = "Moderation"


class NewTenantChat(NewChat, frozen=True, kw_only=True):
    """A direct chat of two users, or a group with a name. `creator` is a user who becomes a member,
    and the owner of a group. Without it, the tenant creates the chat in its own name, and the first
    of `members` owns a group."""

    creator: NamedSender | None = None


class NewTenantMessage(MessageBody, frozen=True, kw_only=True):
    """A message to post. `sender` is a member of the chat; without it, or with `~tenant`, the
    tenant posts in its own name. All other fields are those of a user's message."""

    sender: NamedSender | None = None

    @property
    def options(self) -> SendOptions:
        """The options of the message, which say that the tenant posts it."""
        return SendOptions(
            self.reply_to,
            tuple(self.mentions or ()),
            bool(self.silent),
            posted_by="tenant",
            attachments=tuple(self.attachments or ()),
        )


@operation(
    "POST",
    "/v1/tenants/{tenant}/chats",
    tag=TAG,
    summary="Create a chat as the tenant",
    key="tenant",
    statuses=(201, 200),
    headers=("Idempotency-Key",),
    refusals=(
        TenantNotFound,
        UserNotFound,
        UserDeleted,
        ChatNotFound,
        LimitReached,
        QuotaReached,
        RequestConflict,
    ),
    audit=Audited(target="chat_id", quoted=("type", "creator")),
    body_cost=lambda chat: rate_limits.group_cost(len(chat.members)),
)
async def create_tenant_chat(
    caller: Caller, tenant: str, data: NewTenantChat, verbs: ChatVerbs, request_key: str | None
) -> Answer[InspectedChat]:
    """Create a direct chat or a group of any users, in a user's name or in the tenant's own, which
    is `~tenant`. Everybody becomes a member at once, without an invitation. As for users, two users
    have only one direct chat, and a repeat with the same `Idempotency-Key` creates nothing."""
    created = await verbs.create_as_tenant(
        caller, tenant, data.type, data.name, data.creator, data.members, request_key
    )
    state = await verbs.inspect.state(caller, tenant, created.chat_id)
    return Answer(inspected_chat(state), status=201 if created.is_new else 200)


@operation(
    "POST",
    "/v1/tenants/{tenant}/chats/{chat_id}/messages",
    tag=TAG,
    summary="Post a message as the tenant",
    key="tenant",
    statuses=(201, 200),
    refusals=(
        TenantNotFound,
        ChatNotFound,
        MemberNotFound,
        ContentEmpty,
        ContentTooLarge,
        SendConflict,
        ReplyUnknown,
        MentionUnknown,
        AttachmentUnknown,
        AttachmentUsed,
        UserDeleted,
        ChatBusy,
        QuotaReached,
    ),
    audit=Audited(quoted=("sender",)),
)
async def post_tenant_message(
    caller: Caller,
    tenant: str,
    chat: ChatId,
    data: NewTenantMessage,
    verbs: ChatVerbs,
    request_id: str,
    refusals: RefusalJournal,
) -> Answer[MessageRecord]:
    """Post a message in the name of a member or of the tenant itself. All members see in
    `posted_by` that the tenant posted it. A repeat gets 200 with `Idempotent-Replay: true` and the
    message as it is now, without its content if it was edited meanwhile."""
    sender = named_by_tenant(caller, tenant, data.sender)
    entry, is_replay = await post(verbs, sender, chat, data)
    if not is_replay:
        return Answer(message_record(entry, ()), status=201)
    route = "POST /v1/tenants/{tenant}/chats/{chat_id}/messages"
    refusals.repeated(request_id, entry.message_id, route, sender)
    record = await _replayed(caller, tenant, entry, verbs)
    return Answer(record, status=200, headers={"Idempotent-Replay": "true"})


async def _replayed(caller: Caller, tenant: str, entry: Entry, verbs: ChatVerbs) -> MessageRecord:
    """Return a message as it is now, without content that the tenant did not post itself."""
    try:
        page = await verbs.inspect.entries(
            caller, tenant, entry.chat_id, after=entry.sequence - 1, limit=1
        )
    except ChatNotFound:
        return sent_record(entry)  # the chat was deleted meanwhile
    (message,) = page.entries
    if message.edited_at is not None:
        message.content = None
    return message_record(message, page.receipts)


OPERATIONS: Final = (create_tenant_chat, post_tenant_message)
