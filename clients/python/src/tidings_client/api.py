# SPDX-License-Identifier: Apache-2.0
"""The REST API with the user's token: what is asked for once rather than followed."""

from datetime import datetime
from ssl import SSLContext
from typing import Any, Final, TypeVar

import httpx
import msgspec

from tidings_client.inbox import Inbox
from tidings_client.records import (
    Chat,
    ChatPage,
    Invite,
    Job,
    Left,
    Member,
    MessageRecord,
    Reaction,
    Receipt,
)
from tidings_client.rest import Rest, path_of
from tidings_client.tokens import Tokens
from tidings_client.world import World

T = TypeVar("T")

ASKED: Final = 202
"""The status of who is asked first."""


class _Data(msgspec.Struct):
    data: msgspec.Raw


class Api:
    """One method for each thing a user can ask.

    Every one of them raises Refused if the server declines, and Unavailable if it cannot be
    reached or has no time; requests that may safely be repeated have then been repeated.
    """

    def __init__(
        self,
        url: str,
        tokens: Tokens,
        world: World,
        ssl_context: SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` takes the place of the network in tests."""
        self._world = world
        self._rest = Rest(url, tokens, world, ssl_context, transport)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._rest.close()

    # Chats.

    async def create_direct(self, user: str) -> Chat:
        """The direct chat with a user: there is one for each pair, made if it is not there yet."""
        return await self._create({"type": "direct", "members": [user]})

    async def create_group(self, name: str, members: list[str]) -> Chat:
        """A new group with these others."""
        return await self._create({"type": "group", "name": name, "members": members})

    async def chats(self, limit: int = 50, cursor: str | None = None) -> ChatPage:
        """The chat list, latest activity first; `next_cursor` leads to its next part."""
        query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        return await self._rest.ask(ChatPage, "GET", "/v1/chats", query=query)

    async def chat(self, chat: str) -> Chat:
        """One chat."""
        return await self._rest.ask(Chat, "GET", _path(chat))

    async def rename(self, chat: str, name: str) -> Chat:
        """Give a group another name."""
        return await self._rest.ask(Chat, "PATCH", _path(chat), {"name": name})

    async def delete_chat(self, chat: str) -> Job:
        """Delete a group that the user owns: nothing is taken in from the answer on.

        Asked again it answers with the same job, as far as it is then.
        """
        return await self._rest.ask(Job, "DELETE", _path(chat))

    async def mute(self, chat: str, until: datetime | None) -> None:
        """Let the chat not disturb until then; None ends it."""
        await self._rest.request("PUT", _path(chat, "mute"), {"until": until and until.isoformat()})

    # Members.

    async def members(self, chat: str) -> list[Member]:
        """Everyone in the chat, longest-standing first."""
        return await self._list(Member, _path(chat, "members"))

    async def put_member(self, chat: str, user: str, role: str | None = None) -> Member | Invite:
        """Add a member, or change a role."""
        body = {} if role is None else {"role": role}
        answer = await self._rest.request("PUT", _path(chat, "members", user), body)
        if answer.status_code == ASKED:
            return msgspec.json.decode(answer.content, type=Invite)
        return msgspec.json.decode(answer.content, type=Member)

    async def remove_member(self, chat: str, user: str) -> None:
        """Remove a member, or leave."""
        await self._rest.request("DELETE", _path(chat, "members", user))

    async def invites(self) -> list[Invite]:
        """Groups that strangers ask the user into, newest first, where the tenant wants that."""
        return await self._list(Invite, "/v1/me/invites")

    async def accept_invite(self, chat: str) -> Chat:
        """Join; doing it again has the same answer."""
        path = path_of("me", "invites", chat, "accept")
        return await self._rest.ask(Chat, "POST", path, is_safe=True)

    async def decline_invite(self, chat: str) -> None:
        """Be asked no longer, into this chat for 7 days by anybody; nobody is told."""
        await self._rest.request("DELETE", path_of("me", "invites", chat))

    async def leave(self, chats: list[str]) -> list[Left]:
        """Leave up to 100 chats; for each of them whether it was left. What is `retryable` can be
        asked for again."""
        body = {"chats": chats}
        found = await self._rest.ask(_Data, "POST", "/v1/chats/leave", body, is_safe=True)
        return msgspec.json.decode(found.data, type=list[Left])

    # Messages.

    async def message(self, chat: str, sequence: int) -> MessageRecord:
        """One message as it is now, with its status."""
        return await self._rest.ask(MessageRecord, "GET", _path(chat, "messages", str(sequence)))

    async def edit(self, chat: str, sequence: int, content: str) -> MessageRecord:
        """Change the content of an own message."""
        path = _path(chat, "messages", str(sequence))
        return await self._rest.ask(MessageRecord, "PATCH", path, {"content": content})

    async def redact(self, chat: str, sequence: int) -> None:
        """Remove the content of a message for everyone."""
        await self._rest.request("DELETE", _path(chat, "messages", str(sequence)))

    async def react(self, chat: str, sequence: int, emoji: str) -> None:
        """Put an emoji to a message."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._rest.request("PUT", path)

    async def unreact(self, chat: str, sequence: int, emoji: str) -> None:
        """Take an own emoji away."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._rest.request("DELETE", path)

    async def reactions(self, chat: str, sequence: int) -> list[Reaction]:
        """Who reacted, and how."""
        return await self._list(Reaction, _path(chat, "messages", str(sequence), "reactions"))

    async def receipts(self, chat: str) -> list[Receipt]:
        """How far everyone is."""
        return await self._list(Receipt, _path(chat, "receipts"))

    # Notifications.

    def inbox(self, name: str) -> Inbox:
        """One inbox of the user; nothing is asked yet."""
        return Inbox(self._rest, name)

    # How it is asked.

    async def _create(self, wish: dict[str, Any]) -> Chat:
        return await self._rest.ask(Chat, "POST", "/v1/chats", wish, key=self._world.new_id())

    async def _list(self, kind: type[T], path: str) -> list[T]:
        found = await self._rest.ask(_Data, "GET", path)
        return msgspec.json.decode(found.data, type=list[kind])  # type: ignore[valid-type]


def _path(chat: str, *rest: str) -> str:
    return path_of("chats", chat, *rest)
