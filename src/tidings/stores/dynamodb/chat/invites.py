# SPDX-License-Identifier: Apache-2.0
"""Invitations on DynamoDB: expiring items in the table of claimed keys, grouped by invited user."""

from contextlib import suppress
from typing import Final

from tidings.model import limits
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Asked, Invite, asking
from tidings.ports.chats import InviteStore
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import ConditionFailed, Item
from tidings.stores.dynamodb.patterns import (
    DECLINE_INVITE,
    DROP_INVITE,
    KEEP_INVITE,
    LIST_INVITES,
    READ_INVITE,
)
from tidings.stores.dynamodb.tables import TTL, invites_of, ttl_seconds

_NOT_DECLINED: Final = "attribute_not_exists(#declined_at) OR #expires_at <= :now"
_IS_PENDING: Final = (
    "attribute_exists(#chat_id) AND attribute_not_exists(#declined_at) AND #expires_at > :now"
)


class DynamoInvites:
    """Stores pending and declined invitations."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def put(self, invite: Invite, now: int) -> Asked:
        asked = asking(invite, await self._kept(invite.user_id, now))
        if asked == "refused":
            return asked
        try:
            await self._dynamo.put(KEEP_INVITE, invite_item(invite), _NOT_DECLINED, {":now": now})
        except ConditionFailed:
            return "refused"  # declined a moment ago
        return asked

    async def get(self, user: UserKey, chat: ChatId, now: int) -> Invite | None:
        item = await self._dynamo.get(READ_INVITE, _key(user, chat))
        invite = None if item is None else to_invite(item)
        return invite if invite is not None and _is_pending(invite, now) else None

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        return [invite for invite in await self._kept(user, now) if invite.declined_at is None]

    async def decline(self, user: UserKey, chat: ChatId, now: int) -> None:
        until = now + limits.INVITE_DECLINED_MS
        with suppress(ConditionFailed):
            await self._dynamo.update(
                DECLINE_INVITE,
                _key(user, chat),
                f"SET #declined_at = :now, #expires_at = :until, #{TTL} = :ttl",
                _IS_PENDING,
                {":now": now, ":until": until, ":ttl": ttl_seconds(until)},
            )

    async def _kept(self, user: UserKey, now: int) -> list[Invite]:
        items = await self._dynamo.query(
            LIST_INVITES,
            "#chat_id = :user",
            {":user": invites_of(user), ":now": now},
            only="#expires_at > :now",
        )
        found = [to_invite(item) for item in items]
        return sorted(found, key=lambda invite: (invite.invited_at, invite.chat_id), reverse=True)

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        await self._dynamo.delete(DROP_INVITE, _key(user, chat))


def _key(user: UserKey, chat: ChatId) -> Item:
    return {"chat_id": invites_of(user), "claim": chat}


def _is_pending(invite: Invite, now: int) -> bool:
    return invite.declined_at is None and invite.expires_at > now


def invite_item(invite: Invite) -> Item:
    """Convert an invitation to its item."""
    item: Item = {
        **_key(invite.user_id, invite.chat_id),
        "inviter": invite.inviter,
        "role": invite.role,
        "name": invite.name,
        "invited_at": invite.invited_at,
        "expires_at": invite.expires_at,
        TTL: ttl_seconds(invite.expires_at),
    }
    return item if invite.declined_at is None else {**item, "declined_at": invite.declined_at}


def to_invite(item: Item) -> Invite:
    """Convert a stored item to an `Invite`."""
    return Invite(
        user_id=UserKey(item["chat_id"].removeprefix(invites_of(""))),
        chat_id=ChatId(item["claim"]),
        inviter=item["inviter"],
        role=item["role"],
        name=item["name"],
        invited_at=item["invited_at"],
        expires_at=item["expires_at"],
        declined_at=item.get("declined_at"),
    )


_conforms: type[InviteStore] = DynamoInvites
