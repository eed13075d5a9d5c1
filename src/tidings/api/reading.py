# SPDX-License-Identifier: Apache-2.0
"""Operations that read a chat: pages of messages, pages of the log, and receipts."""

from typing import Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Limit, Sequence
from tidings.api.operations import operation
from tidings.api.requests import Body, Query
from tidings.model import limits
from tidings.model.ids import SEQUENCE_MAX, ChatId, UserKey, user_id
from tidings.model.refusals import (
    ChatNotFound,
    CursorInvalid,
    Invalid,
    MessageNotFound,
    ReceiptBeyondHead,
)
from tidings.ports.log import Page
from tidings.wire.records import (
    EntryRecord,
    MentionRecord,
    MessageRecord,
    ReceiptRecord,
    entry_record,
    mention_record,
    message_record,
)

RECEIPTS_TAG: Final = "Receipts"

TAG: Final = "Messages"


class ReceiptChange(Body, frozen=True):
    """The sequences up to which the caller has received and read the chat."""

    delivered: Sequence = 0
    read: Sequence = 0


class ReceiptState(msgspec.Struct):
    """The caller's receipt, and how many messages are unread."""

    delivered: int
    read: int
    unread: int
    unread_exact: bool


class ReceiptList(msgspec.Struct):
    """The receipts of all members, earliest joined first."""

    data: list[ReceiptRecord]
    next_cursor: None = None


@operation(
    "PUT",
    "/v1/chats/{chat_id}/receipt",
    tag=RECEIPTS_TAG,
    summary="Mark a chat as received or read",
    refusals=(ChatNotFound, ReceiptBeyondHead),
)
async def mark_receipt(
    user: UserKey, chat: ChatId, data: ReceiptChange, verbs: ChatVerbs
) -> ReceiptState:
    """Move the caller's receipt forward; lower sequences change nothing."""
    receipt, unread = await verbs.mark(user, chat, data.delivered, data.read)
    return ReceiptState(receipt.delivered, receipt.read, unread.count, unread.exact)


@operation(
    "GET",
    "/v1/chats/{chat_id}/receipts",
    tag=RECEIPTS_TAG,
    summary="List the receipts of a chat",
    refusals=(ChatNotFound,),
)
async def list_receipts(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ReceiptList:
    """Return one receipt for each member."""
    receipts = await verbs.receipts(user, chat)
    return ReceiptList(
        [
            ReceiptRecord(user_id(receipt.user), receipt.delivered, receipt.read)
            for receipt in receipts
        ]
    )


class MessagesQuery(Query, frozen=True):
    """Which messages to return: forwards from `after`, or backwards from `before` or from the
    newest message."""

    limit: Limit = limits.PAGE_DEFAULT
    before: Sequence | None = None
    after: Sequence | None = None


class EntriesQuery(Query, frozen=True):
    """Which entries to return: those that follow the sequence `after`."""

    limit: Limit = limits.PAGE_DEFAULT
    after: Sequence = 0


class MessagesBefore(msgspec.Struct):
    """Messages, newest first; `next_before` is null on the last page, where the chat begins."""

    data: list[MessageRecord]
    next_before: int | None


class MessagesAfter(msgspec.Struct):
    """Messages, oldest first. `next_after` is null on the last page; the pages before it may be
    empty."""

    data: list[MessageRecord]
    next_after: int | None
    head: int


class Replies(msgspec.Struct):
    """Messages that answer a message, oldest first. `next_after` is null on the last page; the
    pages before it may be empty."""

    data: list[MessageRecord]
    next_after: int | None


class MentionsQuery(Query, frozen=True):
    """Which part of the list to return."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class MentionList(msgspec.Struct):
    """Messages that mention the caller, newest first. A page may be short or empty although
    `next_cursor` is not null."""

    data: list[MentionRecord]
    next_cursor: str | None


class EntriesAfter(msgspec.Struct):
    """Entries of the log, oldest first, without gaps."""

    data: list[EntryRecord]
    next_after: int | None
    head: int


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages",
    tag=TAG,
    summary="List messages",
    refusals=(ChatNotFound,),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_messages(
    user: UserKey, chat: ChatId, asked: MessagesQuery, verbs: ChatVerbs
) -> MessagesBefore | MessagesAfter:
    """Return a page of messages, newest first, or oldest first with `after`. Expired messages are
    left out; redacted messages appear as tombstones."""
    if asked.after is None:
        before = SEQUENCE_MAX if asked.before is None else asked.before
        page = await verbs.read.messages(user, chat, before=before, limit=asked.limit)
        return MessagesBefore(_messages(page), page.next)
    if asked.before is not None:
        raise Invalid("before and after cannot be combined", "/before")
    page = await verbs.read.messages(user, chat, after=asked.after, limit=asked.limit)
    return MessagesAfter(_messages(page), page.next, page.head.sequence)


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages/{sequence}/replies",
    tag=TAG,
    summary="List the replies to a message",
    refusals=(ChatNotFound, MessageNotFound),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_replies(
    user: UserKey, chat: ChatId, sequence_in_path: int, asked: EntriesQuery, verbs: ChatVerbs
) -> Replies:
    """Return the messages that answer a message, even if its own content is gone. Expired replies
    are left out; redacted replies appear as tombstones."""
    page = await verbs.read.replies(
        user, chat, sequence_in_path, after=asked.after, limit=asked.limit
    )
    return Replies(_messages(page), page.next)


@operation(
    "GET",
    "/v1/mentions",
    tag=TAG,
    summary="List messages that mention the caller",
    refusals=(CursorInvalid,),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_mentions(user: UserKey, asked: MentionsQuery, verbs: ChatVerbs) -> MentionList:
    """Return the messages of the last 90 days that mention the caller by name, over all chats of
    which the caller is a member. Messages whose content is gone are left out, and so are those that
    mention everyone."""
    found, cursor = await verbs.mentions(user, asked.cursor, asked.limit)
    return MentionList([mention_record(entry) for entry in found], cursor)


@operation(
    "GET",
    "/v1/chats/{chat_id}/entries",
    tag=TAG,
    summary="Read the log of a chat",
    refusals=(ChatNotFound,),
    cost=lambda asked: rate_limits.page_cost(asked.limit),
)
async def list_entries(
    user: UserKey, chat: ChatId, asked: EntriesQuery, verbs: ChatVerbs
) -> EntriesAfter:
    """Return a page of the log with all entries, tombstones included, oldest first."""
    page = await verbs.read.entries(user, chat, after=asked.after, limit=asked.limit)
    entries = [entry_record(entry) for entry in page.entries]
    return EntriesAfter(entries, page.next, page.head.sequence)


def _messages(page: Page) -> list[MessageRecord]:
    return [message_record(entry, page.receipts) for entry in page.entries]


OPERATIONS: Final = (
    list_messages,
    list_replies,
    list_mentions,
    list_entries,
    mark_receipt,
    list_receipts,
)
