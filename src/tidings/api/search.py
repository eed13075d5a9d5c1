# SPDX-License-Identifier: Apache-2.0
"""The operation that searches for messages."""

from typing import Final, Literal

import msgspec

from tidings.actions import rate_limits
from tidings.actions.search.searching import WORK_MAX, Asked
from tidings.actions.verbs import ChatVerbs
from tidings.api import fields
from tidings.api.fields import Limit, SearchText, Time, UserId
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model import limits
from tidings.model.ids import USER, UserKey, rfc3339, tenant_of, user_key
from tidings.model.refusals import ChatNotFound, CursorInvalid, Invalid
from tidings.wire.records import MessageRecord, message_record

TAG: Final = "Search"


class SearchRequest(Body, frozen=True, kw_only=True, rename={"sender": "from"}):
    """What to search for: words, in any order, and phrases in quotation marks. Without `chat_id`,
    all chats of the caller are searched. With `has`, only messages with files are found. With
    `cursor`, all other fields but `limit` must be the same as in the first request."""

    q: SearchText
    chat_id: str | None = None
    sender: UserId | None = None
    after: Time | None = None
    before: Time | None = None
    has: Literal["attachment"] | None = None
    limit: Limit = limits.PAGE_DEFAULT
    cursor: str | None = None


class SearchHit(msgspec.Struct):
    """A message, and the ranges of its content that were found, in code points. There are none if
    the words are in the names of its files."""

    message: MessageRecord
    highlights: list[tuple[int, int]]


class SearchResults(msgspec.Struct):
    """Messages, newest first. There may be few or none although `complete` is false: then the next
    request, with `next_cursor`, continues. All messages after `searched_until` have been looked
    at; it is null if the search is complete."""

    data: list[SearchHit]
    next_cursor: str | None
    searched_until: str | None
    complete: bool


@operation(
    "POST",
    "/v1/search",
    tag=TAG,
    summary="Search for messages",
    refusals=(ChatNotFound, CursorInvalid),
    cost=rate_limits.page_cost(WORK_MAX),
)
async def search_messages(user: UserKey, data: SearchRequest, verbs: ChatVerbs) -> SearchResults:
    """Return messages that contain all words of `q` in their text or in the names of their files,
    newest first. The last word is also found as the beginning of a word, if it has at least two
    characters. In scripts without spaces between words, any part of a text is found. Case, width
    and other variants of characters do not matter. Messages whose content is gone are not found. A
    user may have two searches under way."""
    asked = Asked(
        data.q,
        None if data.chat_id is None else fields.chat(data.chat_id),
        None if data.sender is None else _sender(user, data.sender),
        None if data.after is None else fields.time(data.after, "after"),
        None if data.before is None else fields.time(data.before, "before"),
        has_file=data.has is not None,
    )
    results = await verbs.search(user, asked, data.cursor, data.limit)
    hits = [
        SearchHit(message_record(found.entry, found.receipts), found.highlights)
        for found in results.found
    ]
    until = results.searched_until
    return SearchResults(
        hits,
        results.cursor,
        None if until is None else rfc3339(until),
        complete=results.cursor is None,
    )


def _sender(caller: UserKey, sender: str) -> UserKey:
    if USER.fullmatch(sender) is None:
        raise Invalid("from: must be a user id", "/from")
    return user_key(tenant_of(caller), sender)


OPERATIONS: Final = (search_messages,)
