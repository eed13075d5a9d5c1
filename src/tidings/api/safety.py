# SPDX-License-Identifier: Apache-2.0
"""Operations with which users protect themselves from others."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.operations import operation
from tidings.model.ids import USER, UserKey, rfc3339, tenant_of, user_id, user_key
from tidings.model.refusals import LimitReached, UserDeleted, UserNotFound

TAG: Final = "Safety"


class BlockRecord(msgspec.Struct):
    """A user whom the caller blocks."""

    user_id: str
    created_at: str


class BlockedUsers(msgspec.Struct):
    """All users whom the caller blocks, newest first."""

    data: list[BlockRecord]
    next_cursor: None = None


@operation("GET", "/v1/me/blocks", tag=TAG, summary="List the users I block")
async def list_blocks(user: UserKey, verbs: ChatVerbs) -> BlockedUsers:
    """Return the users whom you block, which are never more than 1000."""
    return BlockedUsers(
        [
            BlockRecord(user_id(block.blocked), rfc3339(block.created_at))
            for block in await verbs.blocks(user)
        ]
    )


@operation(
    "PUT",
    "/v1/me/blocks/{user_id}",
    tag=TAG,
    summary="Block a user",
    statuses=(204,),
    refusals=(UserNotFound, UserDeleted, LimitReached),
)
async def block_user(user: UserKey, user_id: str, verbs: ChatVerbs) -> None:
    """Block a user, who does not learn of it. You get this user's entries with `blocked: true` and
    without content: no preview, push, unread count, typing or presence. The user cannot add you to
    groups, and does not see your receipts in your direct chat. A repeat changes nothing."""
    await verbs.block(user, named(user, user_id))


@operation(
    "DELETE",
    "/v1/me/blocks/{user_id}",
    tag=TAG,
    summary="End a block",
    statuses=(204,),
    refusals=(UserNotFound,),
)
async def unblock_user(user: UserKey, user_id: str, verbs: ChatVerbs) -> None:
    """End a block, if there is one. All messages that the user sent meanwhile are shown again."""
    await verbs.block.end(user, named(user, user_id))


def named(caller: UserKey, name: str) -> UserKey:
    """Return the user with this id in the caller's tenant.

    Raises:
        UserNotFound: The id is malformed.
    """
    if USER.fullmatch(name) is None:
        raise UserNotFound
    return user_key(tenant_of(caller), name)


OPERATIONS: Final = (list_blocks, block_user, unblock_user)
