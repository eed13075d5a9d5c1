# SPDX-License-Identifier: Apache-2.0
"""History of a chat: pages of its messages in both directions, and pages of its log."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Limit, Sequence
from tidings.api.operations import operation
from tidings.api.requests import Query
from tidings.model import costs, limits
from tidings.model.ids import SEQUENCE_MAX, ChatId, UserKey
from tidings.model.refusals import ChatNotFound, Invalid
from tidings.ports.log import Page
from tidings.wire.records import EntryRecord, MessageRecord, entry_record, message_record

TAG: Final = "Messages"


class MessagesQuery(Query, frozen=True):
    """Backwards from `before` (from the newest if it is absent), or forwards from `after`."""

    limit: Limit = limits.PAGE_DEFAULT
    before: Sequence | None = None
    after: Sequence | None = None


class EntriesQuery(Query, frozen=True):
    """Forwards from `after`."""

    limit: Limit = limits.PAGE_DEFAULT
    after: Sequence = 0


class MessagesBefore(msgspec.Struct):
    """Messages, newest first; `next_before` is null at the beginning of the chat."""

    data: list[MessageRecord]
    next_before: int | None


class MessagesAfter(msgspec.Struct):
    """Messages, oldest first; `next_after` is null at the end. An empty page is not the end."""

    data: list[MessageRecord]
    next_after: int | None
    head: int


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
    cost=lambda asked: costs.page(asked.limit),
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
    "/v1/chats/{chat_id}/entries",
    tag=TAG,
    summary="Read the log of a chat",
    refusals=(ChatNotFound,),
    cost=lambda asked: costs.page(asked.limit),
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


OPERATIONS: Final = (list_messages, list_entries)
