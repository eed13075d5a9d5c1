# SPDX-License-Identifier: Apache-2.0
"""The REST API with the user's token, for data that the application requests when it needs it."""

from datetime import datetime
from ssl import SSLContext
from typing import Any, Final, Literal, TypeVar

import httpx
import msgspec

from tidings_client.files import Files
from tidings_client.inbox import Inbox
from tidings_client.listed import ListedDevice, ListedInbox, ListPage, ReportReason, part_of
from tidings_client.push import DevicePushApi
from tidings_client.records import (
    BlockedUser,
    Chat,
    ChatPage,
    Invite,
    Job,
    Left,
    Member,
    MentionPage,
    MessageReceipts,
    MessageRecord,
    Pin,
    Profile,
    ProfileChange,
    Reaction,
    Receipt,
    Replies,
    SearchPage,
    UnreadState,
    UnreadTotal,
)
from tidings_client.rest import Rest, path_of
from tidings_client.scheduled import ScheduledApi
from tidings_client.tokens import Tokens
from tidings_client.world import World

T = TypeVar("T")

ASKED: Final = 202
"""HTTP status of an answer with an invitation: the user must accept before becoming a member."""


class _Data(msgspec.Struct):
    data: msgspec.Raw


class Api(ScheduledApi, DevicePushApi):
    """The REST requests that a user can make, one method for each.

    Every method raises Refused if the server declines, and Unavailable if the server cannot be
    reached or is overloaded. Requests that are safe to repeat were repeated before that.
    """

    def __init__(
        self,
        url: str,
        tokens: Tokens,
        world: World,
        ssl_context: SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create the API; `transport` replaces the network in tests."""
        self._world = world
        self._rest = Rest(url, tokens, world, ssl_context, transport)
        self.files = Files(self._rest)
        """Uploads, and the attachments of messages."""

    async def close(self) -> None:
        """Close the connections."""
        await self._rest.close()

    # Chats.

    async def create_direct(self, user: str) -> Chat:
        """Return the direct chat with a user; create it if there is none.

        Two users have at most one direct chat.
        """
        return await self._create({"type": "direct", "members": [user]})

    async def create_group(self, name: str, members: list[str], *, key: str | None = None) -> Chat:
        """Create a group with these other members, and return it.

        If this raises Unavailable, repeat it with the same `key`: it then returns the same group.
        """
        return await self._create({"type": "group", "name": name, "members": members}, key)

    async def chats(
        self, limit: int = 50, cursor: str | None = None, after: str | None = None
    ) -> ChatPage:
        """Return a page of the chat list, latest activity first.

        The list includes the message with the id `after`, even if it was sent just now.
        """
        query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        return await self._rest.ask(ChatPage, "GET", "/v1/chats", query=query, after=after)

    async def chat(self, chat: str) -> Chat:
        """Return a chat."""
        return await self._rest.ask(Chat, "GET", _path(chat))

    async def rename(self, chat: str, name: str) -> Chat:
        """Rename a group, and return it."""
        return await self._rest.ask(Chat, "PATCH", _path(chat), {"name": name})

    async def delete_chat(self, chat: str) -> Job:
        """Delete a group that the user owns; after the answer, nobody can write in it.

        A repeated request returns the same job with its current progress.
        """
        return await self._rest.ask(Job, "DELETE", _path(chat))

    async def mute(
        self, chat: str, until: datetime | None, *, except_mentions: bool = False
    ) -> None:
        """Mute a chat until this time; None unmutes it.

        With `except_mentions`, messages that mention the user are still pushed.
        """
        body = {"until": until and until.isoformat(), "except_mentions": except_mentions}
        await self._rest.request("PUT", _path(chat, "mute"), body)

    # Members.

    async def members(self, chat: str) -> list[Member]:
        """Return all members of a chat, longest-standing first."""
        return await self._list(Member, _path(chat, "members"))

    async def put_member(self, chat: str, user: str, role: str | None = None) -> Member | Invite:
        """Add a member or change a role; return the member.

        Return the invitation instead if the user must accept one first.
        """
        body = {} if role is None else {"role": role}
        answer = await self._rest.request("PUT", _path(chat, "members", user), body)
        if answer.status_code == ASKED:
            return msgspec.json.decode(answer.content, type=Invite)
        return msgspec.json.decode(answer.content, type=Member)

    async def remove_member(self, chat: str, user: str) -> None:
        """Remove a member, or leave the chat."""
        await self._rest.request("DELETE", _path(chat, "members", user))

    async def invites(self) -> list[Invite]:
        """Return the user's open invitations, newest first.

        There are invitations only if the tenant's settings require them.
        """
        return await self._list(Invite, "/v1/me/invites")

    async def accept_invite(self, chat: str) -> Chat:
        """Accept an invitation, and return the chat; a repeat returns the same answer."""
        path = path_of("me", "invites", chat, "accept")
        return await self._rest.ask(Chat, "POST", path, is_safe=True)

    async def decline_invite(self, chat: str) -> None:
        """Decline an invitation, without notifying anybody.

        For 7 days nobody can invite the user into this chat.
        """
        await self._rest.request("DELETE", path_of("me", "invites", chat))

    async def leave(self, chats: list[str]) -> list[Left]:
        """Leave up to 100 chats; return for each whether it was left.

        The request can be repeated for chats that are `retryable`.
        """
        body = {"chats": chats}
        found = await self._rest.ask(_Data, "POST", "/v1/chats/leave", body, is_safe=True)
        return msgspec.json.decode(found.data, type=list[Left])

    # People.

    async def me(self) -> Profile:
        """Return the user's own profile."""
        return await self._rest.ask(Profile, "GET", "/v1/me")

    async def profile(self, user: str) -> Profile:
        """Return the profile of a user."""
        return await self._rest.ask(Profile, "GET", path_of("users", user))

    async def profiles(self, users: list[str]) -> list[Profile]:
        """Return the profiles of up to 100 users; unknown users are left out."""
        found = await self._rest.ask(_Data, "GET", "/v1/users", query={"ids": ",".join(users)})
        return msgspec.json.decode(found.data, type=list[Profile])

    async def change_profile(self, change: ProfileChange) -> Profile:
        """Change the user's own profile, and return it."""
        return await self._rest.ask(Profile, "PATCH", "/v1/me", msgspec.to_builtins(change))

    async def blocks(self) -> list[BlockedUser]:
        """Return the users whom the user blocks, newest first."""
        return await self._list(BlockedUser, "/v1/me/blocks")

    async def block(self, user: str) -> None:
        """Block a user, who does not learn of it; a repeat changes nothing.

        Their messages come without content, and count nowhere.
        """
        await self._rest.request("PUT", path_of("me", "blocks", user))

    async def unblock(self, user: str) -> None:
        """End a block, if there is one."""
        await self._rest.request("DELETE", path_of("me", "blocks", user))

    async def report_message(
        self, chat: str, sequence: int, reason: ReportReason, comment: str | None = None
    ) -> str:
        """Report a message to the tenant, which then sees its content as it is now; return the id
        of the report."""
        path = path_of("chats", chat, "messages", str(sequence), "report")
        return await self._report(path, reason, comment)

    async def report_user(self, user: str, reason: ReportReason, comment: str | None = None) -> str:
        """Report a user to the tenant, and return the id of the report."""
        return await self._report(path_of("users", user, "report"), reason, comment)

    async def _report(self, path: str, reason: ReportReason, comment: str | None) -> str:
        body = {"reason": reason} | ({} if comment is None else {"comment": comment})
        return (await self._rest.ask(dict[str, str], "POST", path, body))["report_id"]

    # Messages.

    async def message(self, chat: str, sequence: int) -> MessageRecord:
        """Return the current state of a message, with its status."""
        return await self._rest.ask(MessageRecord, "GET", _path(chat, "messages", str(sequence)))

    async def edit(self, chat: str, sequence: int, content: str) -> MessageRecord:
        """Replace the content of an own message, and return the message."""
        path = _path(chat, "messages", str(sequence))
        return await self._rest.ask(MessageRecord, "PATCH", path, {"content": content})

    async def redact(self, chat: str, sequence: int) -> None:
        """Remove the content of a message for everyone."""
        await self._rest.request("DELETE", _path(chat, "messages", str(sequence)))

    async def react(self, chat: str, sequence: int, emoji: str) -> None:
        """React to a message with an emoji."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._rest.request("PUT", path)

    async def unreact(self, chat: str, sequence: int, emoji: str) -> None:
        """Remove an own reaction from a message."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._rest.request("DELETE", path)

    async def reactions(self, chat: str, sequence: int) -> list[Reaction]:
        """Return all reactions to a message."""
        return await self._list(Reaction, _path(chat, "messages", str(sequence), "reactions"))

    async def replies(self, chat: str, sequence: int, limit: int = 50, after: int = 0) -> Replies:
        """Return a page of the messages that answer a message, oldest first."""
        path = _path(chat, "messages", str(sequence), "replies")
        query = {"limit": str(limit), "after": str(after)}
        return await self._rest.ask(Replies, "GET", path, query=query)

    async def mentions(self, limit: int = 50, cursor: str | None = None) -> MentionPage:
        """Return a page of the messages that mention the user, newest first."""
        query = part_of(limit, cursor)
        return await self._rest.ask(MentionPage, "GET", "/v1/mentions", query=query)

    async def search(
        self,
        q: str,
        *,
        chat: str | None = None,
        sender: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        has: Literal["attachment"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SearchPage:
        """Return messages that contain all words of `q`, newest first.

        The names of files count as part of a message. Without `chat`, all chats of the user are
        searched. To continue with a cursor, repeat the other arguments.
        """
        asked = {
            "chat_id": chat,
            "has": has,
            "from": sender,
            "after": after and after.isoformat(),
            "before": before and before.isoformat(),
            "cursor": cursor,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        body = {"q": q, "limit": limit, **given}
        return await self._rest.ask(SearchPage, "POST", "/v1/search", body)

    async def pins(self, chat: str) -> list[Pin]:
        """Return the pinned messages of a chat, in the order in which they were pinned."""
        return await self._list(Pin, _path(chat, "pins"))

    async def pin(self, chat: str, sequence: int) -> None:
        """Pin a message for all members."""
        await self._rest.request("PUT", _path(chat, "pins", str(sequence)))

    async def unpin(self, chat: str, sequence: int) -> None:
        """Unpin a message."""
        await self._rest.request("DELETE", _path(chat, "pins", str(sequence)))

    async def receipts(self, chat: str) -> list[Receipt]:
        """Return the receipts of all members of a chat."""
        return await self._list(Receipt, _path(chat, "receipts"))

    async def message_receipts(
        self, chat: str, sequence: int, limit: int = 50, cursor: str | None = None
    ) -> MessageReceipts:
        """Return a page of members, with the times at which each received and read a message."""
        path = _path(chat, "messages", str(sequence), "receipts")
        query = part_of(limit, cursor)
        return await self._rest.ask(MessageReceipts, "GET", path, query=query)

    # Unread messages, and hidden chats.

    async def mark_unread(self, chat: str, first: int | None) -> UnreadState:
        """Mark a chat as unread from a sequence on, only for this user; None ends the mark.

        The mark also ends when the user reads further or writes in the chat. Call this with None
        when the user opens the chat.
        """
        return await self._rest.ask(UnreadState, "PUT", _path(chat, "unread"), {"from": first})

    async def hide(self, chat: str, *, hidden: bool = True) -> None:
        """Hide a chat for this user until its next message, or show it again."""
        await self._rest.request("PUT", _path(chat, "hidden"), {"hidden": hidden})

    async def unread(self) -> UnreadTotal:
        """Return the number of unread messages and notifications."""
        return await self._rest.ask(UnreadTotal, "GET", "/v1/unread")

    # Notifications.

    async def inboxes(self, limit: int = 50, cursor: str | None = None) -> ListPage[ListedInbox]:
        """Return a page of the inboxes of the user's tenant, by name."""
        query = part_of(limit, cursor)
        return await self._rest.ask(ListPage[ListedInbox], "GET", "/v1/inboxes", query=query)

    async def devices(self, limit: int = 50, cursor: str | None = None) -> ListPage[ListedDevice]:
        """Return a page of the devices on which the user is logged in, by name."""
        query = part_of(limit, cursor)
        return await self._rest.ask(ListPage[ListedDevice], "GET", "/v1/me/devices", query=query)

    def inbox(self, name: str) -> Inbox:
        """Return an inbox of the user, without a request to the server."""
        return Inbox(self._rest, name)

    # Helpers.

    async def _create(self, wish: dict[str, Any], key: str | None = None) -> Chat:
        key = key or self._world.new_id()
        return await self._rest.ask(Chat, "POST", "/v1/chats", wish, key=key)

    async def _list(self, kind: type[T], path: str) -> list[T]:
        found = await self._rest.ask(_Data, "GET", path)
        return msgspec.json.decode(found.data, type=list[kind])  # type: ignore[valid-type]


def _path(chat: str, *rest: str) -> str:
    return path_of("chats", chat, *rest)
