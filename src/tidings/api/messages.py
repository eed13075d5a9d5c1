# SPDX-License-Identifier: Apache-2.0
"""Operations on messages and reactions."""

import asyncio
from time import monotonic
from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.explain.refusals import RefusalJournal
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import (
    AttachmentIds,
    ClientMessageId,
    Content,
    ContentType,
    Mentions,
    Sequence,
    Time,
    TtlSeconds,
)
from tidings.api.operations import Answer, operation
from tidings.api.requests import Body
from tidings.api.scheduled import NewlyScheduled, schedule
from tidings.logs.requests import current_requests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.entries import Entry, SendOptions, send_options
from tidings.model.file_refusals import AttachmentUnknown, AttachmentUsed
from tidings.model.ids import ChatId, UserKey, locate, rfc3339, user_id
from tidings.model.refusals import (
    ChatBusy,
    ChatFrozen,
    ChatNotFound,
    ContentEmpty,
    ContentTooLarge,
    HookUnavailable,
    LimitReached,
    MentionUnknown,
    MessageGone,
    MessageNotFound,
    QuotaReached,
    Refusal,
    ReplyUnknown,
    SendConflict,
    SendDeclined,
    SlowMode,
    UserBanned,
    UserDeleted,
)
from tidings.tracing.spans import current_span
from tidings.wire.records import (
    MessageRecord,
    PinRecord,
    ReactionRecord,
    message_record,
    pin_record,
    sent_record,
)

REACTIONS_TAG: Final = "Reactions"

PINS_TAG: Final = "Pins"

TAG: Final = "Messages"


class ReactionList(msgspec.Struct):
    """The reactions to a message with their users, oldest first."""

    data: list[ReactionRecord]
    next_cursor: None = None


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions",
    tag=REACTIONS_TAG,
    summary="List the reactions to a message",
    refusals=(ChatNotFound, MessageNotFound),
)
async def list_reactions(
    user: UserKey, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs
) -> ReactionList:
    """Return all reactions to a message, at most 1000."""
    found = await verbs.reactions(user, chat, sequence_in_path)
    return ReactionList(
        [ReactionRecord(emoji, user_id(who), rfc3339(when)) for emoji, who, when in found]
    )


@operation(
    "PUT",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions/{emoji}",
    tag=REACTIONS_TAG,
    summary="React to a message",
    statuses=(204,),
    refusals=(ChatNotFound, ChatFrozen, MessageNotFound, MessageGone, LimitReached, ChatBusy),
    is_banned=True,
)
async def add_reaction(
    user: UserKey, chat: ChatId, sequence_in_path: int, emoji: str, verbs: ChatVerbs
) -> None:
    """Add the caller's reaction; a repeated request changes nothing. A message has at most 20
    different emoji."""
    await verbs.react(user, chat, sequence_in_path, emoji)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions/{emoji}",
    tag=REACTIONS_TAG,
    summary="Remove a reaction",
    statuses=(204,),
    refusals=(ChatNotFound, ChatFrozen, MessageNotFound, MessageGone, ChatBusy),
    is_banned=True,
)
async def remove_reaction(
    user: UserKey, chat: ChatId, sequence_in_path: int, emoji: str, verbs: ChatVerbs
) -> None:
    """Remove the caller's reaction, if there is one."""
    await verbs.react(user, chat, sequence_in_path, emoji, away=True)


class PinList(msgspec.Struct):
    """The pinned messages of a chat, in the order in which they were pinned."""

    data: list[PinRecord]
    next_cursor: None = None


@operation(
    "GET",
    "/v1/chats/{chat_id}/pins",
    tag=PINS_TAG,
    summary="List the pinned messages",
    refusals=(ChatNotFound,),
    cost=rate_limits.page_cost(limits.PINS_MAX),
)
async def list_pins(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> PinList:
    """Return all pinned messages, at most 50. A message whose content is gone stays pinned, as a
    tombstone."""
    page, pins = await verbs.read.pins(user, chat)
    pairs = zip(page.entries, pins, strict=True)
    return PinList([pin_record(entry, pin, page.receipts) for entry, pin in pairs])


@operation(
    "PUT",
    "/v1/chats/{chat_id}/pins/{sequence}",
    tag=PINS_TAG,
    summary="Pin a message",
    statuses=(204,),
    refusals=(ChatNotFound, ChatFrozen, MessageNotFound, MessageGone, LimitReached, ChatBusy),
    is_banned=True,
)
async def pin_message(user: UserKey, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs) -> None:
    """Pin a message for all members; a repeated request changes nothing. In a group, admins and
    owners may do this; in a direct chat, both users may."""
    await verbs.pin(user, chat, sequence_in_path)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/pins/{sequence}",
    tag=PINS_TAG,
    summary="Unpin a message",
    statuses=(204,),
    refusals=(ChatNotFound, ChatFrozen, MessageNotFound, ChatBusy),
    is_banned=True,
)
async def unpin_message(
    user: UserKey, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs
) -> None:
    """Unpin a message, if it is pinned. Those who may pin messages may do this."""
    await verbs.pin(user, chat, sequence_in_path, away=True)


class MessageBody(Body, frozen=True, kw_only=True):
    """The fields of every message that is posted."""

    client_message_id: ClientMessageId
    content: Content
    content_type: ContentType | None = None
    ttl_seconds: TtlSeconds | None = None
    after: Sequence | None = None
    reply_to: Sequence | None = None
    mentions: Mentions | None = None
    silent: bool | None = None
    attachments: AttachmentIds | None = None

    @property
    def options(self) -> SendOptions | None:
        """The options of the message; None if it has none, which is the usual case."""
        return send_options(self.reply_to, self.mentions, self.silent, self.attachments)


class NewMessage(MessageBody, frozen=True, kw_only=True):
    """A message to post, at once or, with `send_at`, later. `after` is a sequence that the client
    had seen when it first sent the message. `reply_to` is the sequence of a message, `mentions` are
    user ids of members, and `attachments` ids of finished uploads."""

    send_at: Time | None = None


class MessageChange(Body, frozen=True):
    """The new content of a message; empty only if the message has attachments."""

    content: Content


@operation(
    "POST",
    "/v1/chats/{chat_id}/messages",
    tag=TAG,
    summary="Post a message",
    statuses=(201, 200, 202),
    refusals=(
        ChatNotFound,
        ChatFrozen,
        UserBanned,
        SlowMode,
        ContentEmpty,
        ContentTooLarge,
        SendConflict,
        ReplyUnknown,
        MentionUnknown,
        AttachmentUnknown,
        AttachmentUsed,
        UserDeleted,
        LimitReached,
        ChatBusy,
        SendDeclined,
        HookUnavailable,
        QuotaReached,
    ),
)
async def post_message(
    user: UserKey,
    chat: ChatId,
    data: NewMessage,
    verbs: ChatVerbs,
    request_id: str,
    refusals: RefusalJournal,
) -> Answer[MessageRecord | NewlyScheduled]:
    """Post a message. A client that lost the answer sends the request again: the same
    `client_message_id` gets 200 with `Idempotent-Replay: true` and the message as it is now. If the
    sender has left the chat meanwhile, the answer has only the sequence, id and time of the
    message. With `send_at`, the message is only scheduled: the answer is 202 with its
    `scheduled_id`, for a repeat too. Everything is checked again when the message is sent."""
    if data.send_at is not None:
        return await schedule(verbs, user, chat, data, data.send_at)
    entry, is_replay = await post(verbs, user, chat, data)
    if not is_replay:
        return Answer(message_record(entry, ()), status=201)
    refusals.repeated(request_id, entry.message_id, "POST /v1/chats/{chat_id}/messages", user)
    record = await _replayed(verbs, user, entry)
    return Answer(record, status=200, headers={"Idempotent-Replay": "true"})


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages/{sequence}",
    tag=TAG,
    summary="Get a message",
    refusals=(ChatNotFound, MessageNotFound),
)
async def get_message(
    user: UserKey, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs
) -> MessageRecord:
    """Return a message. If its content is gone, `redacted`, `expired` or `erased` is true."""
    return await _one(verbs, user, chat, sequence_in_path)


@operation(
    "GET",
    "/v1/messages/{message_id}",
    tag=TAG,
    summary="Get a message by its id",
    refusals=(MessageNotFound,),
)
async def find_message(user: UserKey, message_id: str, verbs: ChatVerbs) -> MessageRecord:
    """Return a message by its id alone. The answer is 404 for callers who are not in its chat."""
    found = locate(message_id)
    if found is None:
        raise MessageNotFound
    try:
        return await _one(verbs, user, *found)
    except ChatNotFound:
        raise MessageNotFound from None


@operation(
    "PATCH",
    "/v1/chats/{chat_id}/messages/{sequence}",
    tag=TAG,
    summary="Edit a message",
    refusals=(
        ChatNotFound,
        ChatFrozen,
        MessageNotFound,
        MessageGone,
        ContentEmpty,
        ContentTooLarge,
        SendDeclined,
        HookUnavailable,
        ChatBusy,
    ),
    is_banned=True,
)
async def edit_message(
    user: UserKey, chat: ChatId, sequence_in_path: int, data: MessageChange, verbs: ChatVerbs
) -> MessageRecord:
    """Replace the content of a message. Only its sender may do this."""
    await verbs.edit(user, chat, sequence_in_path, data.content)
    return await _one(verbs, user, chat, sequence_in_path)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/messages/{sequence}",
    tag=TAG,
    summary="Redact a message",
    statuses=(204,),
    refusals=(ChatNotFound, MessageNotFound, ChatBusy),
    is_banned=True,
)
async def redact_message(
    user: UserKey, chat: ChatId, sequence_in_path: int, verbs: ChatVerbs
) -> None:
    """Remove the content of a message for everyone; its sequence remains. Its sender, admins and
    owners may do this."""
    await verbs.redact(user, chat, sequence_in_path)


async def post(
    verbs: ChatVerbs, user: UserKey, chat: ChatId, message: MessageBody
) -> tuple[Entry, bool]:
    """Post a message; when it is durable, return it, and True if an earlier request has stored
    it."""
    answered: asyncio.Future[tuple[Entry, bool]] = asyncio.get_running_loop().create_future()
    request_span = current_span()
    span = None if request_span is None else request_span.child("send")

    def answer(outcome: Entry | Refusal, is_replay: bool) -> None:
        if span is not None:
            span.end(error=outcome.code if isinstance(outcome, Refusal) else None)
        if answered.done():
            return
        if isinstance(outcome, Refusal):
            answered.set_exception(outcome)
        else:
            answered.set_result((outcome, is_replay))

    verbs.post(
        user,
        chat,
        message.client_message_id,
        message.content,
        message.content_type,
        message.ttl_seconds,
        answer,
        after=message.after,
        options=message.options,
        requests=current_requests(),
        span=span,
    )
    began = monotonic()
    sent = await answered
    declared.send_seconds.of["rest"].observe(monotonic() - began)
    return sent


async def _replayed(verbs: ChatVerbs, user: UserKey, entry: Entry) -> MessageRecord:
    """Return the caller's message as it is now, without content if the caller has left the chat."""
    try:
        return await _one(verbs, user, entry.chat_id, entry.sequence)
    except ChatNotFound:
        return sent_record(entry)


async def _one(verbs: ChatVerbs, user: UserKey, chat: ChatId, sequence: int) -> MessageRecord:
    page = await verbs.read.one(user, chat, sequence)
    return message_record(page.entries[0], page.receipts)


OPERATIONS: Final = (
    post_message,
    get_message,
    find_message,
    edit_message,
    redact_message,
    list_reactions,
    add_reaction,
    remove_reaction,
    list_pins,
    pin_message,
    unpin_message,
)
