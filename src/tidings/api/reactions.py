# SPDX-License-Identifier: Apache-2.0
"""Reactions to a message: list, add and remove."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import (
    ChatBusy,
    ChatNotFound,
    LimitReached,
    MessageGone,
    MessageNotFound,
)
from tidings.model.times import rfc3339
from tidings.wire.records import ReactionRecord

TAG: Final = "Reactions"


class ReactionList(msgspec.Struct):
    """The reactions to a message with their users, oldest first."""

    data: list[ReactionRecord]
    next_cursor: None = None


@operation(
    "GET",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions",
    tag=TAG,
    summary="List the reactions to a message",
    refusals=(ChatNotFound, MessageNotFound),
)
async def list_reactions(user: UserKey, chat: ChatId, place: int, verbs: ChatVerbs) -> ReactionList:
    """Return all reactions to a message: at most 1000."""
    found = await verbs.reactions(user, chat, place)
    return ReactionList(
        [ReactionRecord(emoji, user_id(who), rfc3339(when)) for emoji, who, when in found]
    )


@operation(
    "PUT",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions/{emoji}",
    tag=TAG,
    summary="React to a message",
    statuses=(204,),
    refusals=(ChatNotFound, MessageNotFound, MessageGone, LimitReached, ChatBusy),
)
async def add_reaction(
    user: UserKey, chat: ChatId, place: int, emoji: str, verbs: ChatVerbs
) -> None:
    """Add the caller's reaction; a repeated request changes nothing. A message has at most 20
    different emoji."""
    await verbs.react(user, chat, place, emoji)


@operation(
    "DELETE",
    "/v1/chats/{chat_id}/messages/{sequence}/reactions/{emoji}",
    tag=TAG,
    summary="Remove a reaction",
    statuses=(204,),
    refusals=(ChatNotFound, MessageNotFound, MessageGone, ChatBusy),
)
async def remove_reaction(
    user: UserKey, chat: ChatId, place: int, emoji: str, verbs: ChatVerbs
) -> None:
    """Remove the caller's reaction, if there is one."""
    await verbs.react(user, chat, place, emoji, away=True)


OPERATIONS: Final = (list_reactions, add_reaction, remove_reaction)
