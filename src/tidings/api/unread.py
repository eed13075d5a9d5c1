# SPDX-License-Identifier: Apache-2.0
"""Operations on receipts of a message, on unread marks and hidden chats, and on the unread
total."""

from typing import Annotated, Final

import msgspec

from tidings.actions import rate_limits
from tidings.actions.chat.unread import TOTAL_CHATS_MAX
from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Limit
from tidings.api.operations import operation
from tidings.api.requests import Body, Query
from tidings.model import limits
from tidings.model.chats import ReceiptWithTimes
from tidings.model.ids import SEQUENCE_MAX, ChatId, UserKey, rfc3339, user_id
from tidings.model.refusals import ChatNotFound, CursorInvalid, MessageNotFound
from tidings.wire.records import UnreadTotalRecord, total_fields

RECEIPTS_TAG: Final = "Receipts"

CHATS_TAG: Final = "Chats"


class MessageReceiptsQuery(Query, frozen=True):
    """Which part of the list to return."""

    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class MessageReceipt(msgspec.Struct):
    """Whether and when a member received and read a message. A time is null if the member has not
    done so, or if the time is no longer known."""

    user_id: str
    delivered: bool
    delivered_at: str | None
    read: bool
    read_at: str | None


class MessageReceiptList(msgspec.Struct):
    """A page of members, and how many of all members have received and read the message, at the
    time `as_of`."""

    data: list[MessageReceipt]
    delivered: int
    read: int
    as_of: str
    next_cursor: str | None


class UnreadMark(Body, frozen=True, rename={"first": "from"}):
    """The sequence from which messages count as unread; null removes this mark."""

    first: Annotated[int, msgspec.Meta(ge=1, le=SEQUENCE_MAX)] | None


class UnreadState(msgspec.Struct):
    """How many messages are unread, and whether the caller marked the chat as unread."""

    marked_unread: bool
    unread: int
    unread_exact: bool


class HiddenChange(Body, frozen=True):
    """Whether the chat is hidden."""

    hidden: bool


class HiddenState(msgspec.Struct):
    """Whether the chat is hidden."""

    hidden: bool


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages/{sequence}/receipts",
    tag=RECEIPTS_TAG,
    summary="List who received and read a message",
    refusals=(ChatNotFound, MessageNotFound, CursorInvalid),
    cost=lambda asked: rate_limits.receipts_cost(asked.limit),
)
async def list_message_receipts(
    user: UserKey,
    chat: ChatId,
    sequence_in_path: int,
    asked: MessageReceiptsQuery,
    verbs: ChatVerbs,
) -> MessageReceiptList:
    """Return the receipts of all members except the sender and those who joined after the message,
    earliest joined first. In chats of more than 64 members, the answer is up to 30 seconds old."""
    found = await verbs.message_receipts(user, chat, sequence_in_path, asked.cursor, asked.limit)
    return MessageReceiptList(
        [_record(member, sequence_in_path, found.sent_at) for member in found.page],
        found.delivered,
        found.read,
        rfc3339(found.as_of),
        found.cursor,
    )


@operation(
    "PUT",
    "/v1/chats/{chat_id}/unread",
    tag=RECEIPTS_TAG,
    summary="Mark a chat as unread",
    refusals=(ChatNotFound,),
)
async def mark_unread(
    user: UserKey, chat: ChatId, data: UnreadMark, verbs: ChatVerbs
) -> UnreadState:
    """Count messages as unread from a sequence on. The sequence may be at most 1,000 entries before
    the end of the log, and not before the caller joined. Other members see no change, and receipts
    do not move. The mark ends when the caller reads further, writes in the chat, or sets `from` to
    null."""
    receipt, unread = await verbs.mark_unread(user, chat, data.first)
    return UnreadState(receipt.is_marked_unread, unread.count, unread.exact)


@operation(
    "PUT",
    "/v1/chats/{chat_id}/hidden",
    tag=CHATS_TAG,
    summary="Hide a chat",
    refusals=(ChatNotFound,),
)
async def hide_chat(
    user: UserKey, chat: ChatId, data: HiddenChange, verbs: ChatVerbs
) -> HiddenState:
    """Set `hidden` in the caller's chat record until the next message in the chat. The chat list
    still contains the chat, so clients must leave it out themselves."""
    await verbs.hide(user, chat, is_hidden=data.hidden)
    return HiddenState(data.hidden)


@operation(
    "GET",
    "/v1/unread",
    tag=RECEIPTS_TAG,
    summary="Count everything unread",
    cost=rate_limits.chat_list_cost(TOTAL_CHATS_MAX),
)
async def get_unread(user: UserKey, verbs: ChatVerbs) -> UnreadTotalRecord:
    """Return the number of unread messages and notifications over all chats and inboxes. If very
    many messages are unread, the numbers are upper bounds, and `exact` is false. The count of an
    inbox stops at 100."""
    return UnreadTotalRecord(**total_fields(await verbs.count_total(user)))


def _record(member: ReceiptWithTimes, sequence: int, sent_at: int) -> MessageReceipt:
    receipt = member.receipt
    return MessageReceipt(
        user_id(receipt.user),
        receipt.delivered >= sequence,
        _time(member.delivered_at(sequence), sent_at),
        receipt.read >= sequence,
        _time(member.read_at(sequence), sent_at),
    )


def _time(time_ms: int | None, sent_at: int) -> str | None:
    """Format the time of a receipt.

    Receipts store whole seconds, rounded down, so the second may begin before the message was sent.
    """
    return None if time_ms is None else rfc3339(max(time_ms, sent_at))


OPERATIONS: Final = (list_message_receipts, mark_unread, hide_chat, get_unread)
