# SPDX-License-Identifier: Apache-2.0
"""Invitations on DynamoDB: short-lived items of their user, among the claimed keys."""

from tidings.model.ids import ChatId, UserKey
from tidings.model.invites import Invite, may_be_asked
from tidings.ports.invites import InviteStore
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.patterns import DROP_INVITE, KEEP_INVITE, LIST_INVITES
from tidings.stores.dynamodb.tables import TTL, invites_of, ttl_seconds
from tidings.stores.dynamodb.trouble import Item


class DynamoInvites:
    """Invitations that wait."""

    def __init__(self, dynamo: Dynamo) -> None:
        self._dynamo = dynamo

    async def put(self, invite: Invite, now: int) -> bool:
        if not may_be_asked(invite, await self.pending(invite.user_id, now)):
            return False
        await self._dynamo.put(KEEP_INVITE, invite_item(invite))
        return True

    async def pending(self, user: UserKey, now: int) -> list[Invite]:
        items = await self._dynamo.query(
            LIST_INVITES,
            "#chat_id = :user",
            {":user": invites_of(user), ":now": now},
            only="#expires_at > :now",
        )
        found = [to_invite(item) for item in items]
        return sorted(found, key=lambda one: (one.invited_at, one.chat_id), reverse=True)

    async def remove(self, user: UserKey, chat: ChatId) -> None:
        await self._dynamo.delete(DROP_INVITE, _key(user, chat))


def _key(user: UserKey, chat: ChatId) -> Item:
    return {"chat_id": invites_of(user), "claim": chat}


def invite_item(invite: Invite) -> Item:
    """An invitation."""
    return {
        **_key(invite.user_id, invite.chat_id),
        "inviter": invite.inviter,
        "role": invite.role,
        "name": invite.name,
        "invited_at": invite.invited_at,
        "expires_at": invite.expires_at,
        TTL: ttl_seconds(invite.expires_at),
    }


def to_invite(item: Item) -> Invite:
    """The invitation of an item."""
    return Invite(
        user_id=UserKey(item["chat_id"].removeprefix(invites_of(""))),
        chat_id=ChatId(item["claim"]),
        inviter=item["inviter"],
        role=item["role"],
        name=item["name"],
        invited_at=item["invited_at"],
        expires_at=item["expires_at"],
    )


_conforms: type[InviteStore] = DynamoInvites
