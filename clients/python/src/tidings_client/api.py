# SPDX-License-Identifier: Apache-2.0
"""The REST API with the user's token: what is asked for once rather than followed."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from ssl import SSLContext, create_default_context
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from tidings_client.errors import Refused, Unavailable
from tidings_client.records import Chat, ChatPage, Member, MessageRecord, Reaction, Receipt
from tidings_client.tokens import Tokens
from tidings_client.world import World

T = TypeVar("T")

ATTEMPTS_MAX: Final = 3
REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
PAUSE_SECONDS_MAX: Final = 10.0
ANSWER_SECONDS_MAX: Final = 15.0


class _Data(msgspec.Struct):
    data: msgspec.Raw


class _Problem(msgspec.Struct):
    code: str = "unknown"
    detail: str = ""


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
        self._tokens = tokens
        self._world = world
        # The socket knows nothing of proxies in the environment and trusts what the system
        # trusts; the API of the same server does as well.
        if ssl_context is None and url.startswith("https:"):
            ssl_context = create_default_context()
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=ANSWER_SECONDS_MAX,
            trust_env=False,
            verify=ssl_context or False,
            transport=transport,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

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
        return await self._ask(ChatPage, "GET", "/v1/chats", query=query)

    async def chat(self, chat: str) -> Chat:
        """One chat."""
        return await self._ask(Chat, "GET", _path(chat))

    async def rename(self, chat: str, name: str) -> Chat:
        """Give a group another name."""
        return await self._ask(Chat, "PATCH", _path(chat), {"name": name})

    async def mute(self, chat: str, until: datetime | None) -> None:
        """Let the chat not disturb until then; None ends it."""
        await self._request("PUT", _path(chat, "mute"), {"until": until and until.isoformat()})

    # Members.

    async def members(self, chat: str) -> list[Member]:
        """Everyone in the chat, longest-standing first."""
        return await self._list(Member, _path(chat, "members"))

    async def put_member(self, chat: str, user: str, role: str | None = None) -> Member:
        """Add a member, or change a role."""
        body = {} if role is None else {"role": role}
        return await self._ask(Member, "PUT", _path(chat, "members", user), body)

    async def remove_member(self, chat: str, user: str) -> None:
        """Remove a member, or leave."""
        await self._request("DELETE", _path(chat, "members", user))

    # Messages.

    async def message(self, chat: str, sequence: int) -> MessageRecord:
        """One message as it is now, with its status."""
        return await self._ask(MessageRecord, "GET", _path(chat, "messages", str(sequence)))

    async def edit(self, chat: str, sequence: int, content: str) -> MessageRecord:
        """Change the content of an own message."""
        path = _path(chat, "messages", str(sequence))
        return await self._ask(MessageRecord, "PATCH", path, {"content": content})

    async def redact(self, chat: str, sequence: int) -> None:
        """Remove the content of a message for everyone."""
        await self._request("DELETE", _path(chat, "messages", str(sequence)))

    async def react(self, chat: str, sequence: int, emoji: str) -> None:
        """Put an emoji to a message."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._request("PUT", path)

    async def unreact(self, chat: str, sequence: int, emoji: str) -> None:
        """Take an own emoji away."""
        path = _path(chat, "messages", str(sequence), "reactions", emoji)
        await self._request("DELETE", path)

    async def reactions(self, chat: str, sequence: int) -> list[Reaction]:
        """Who reacted, and how."""
        return await self._list(Reaction, _path(chat, "messages", str(sequence), "reactions"))

    async def receipts(self, chat: str) -> list[Receipt]:
        """How far everyone is."""
        return await self._list(Receipt, _path(chat, "receipts"))

    # How it is asked.

    async def _create(self, wish: dict[str, Any]) -> Chat:
        key = {"Idempotency-Key": self._world.new_id()}
        return await self._ask(Chat, "POST", "/v1/chats", wish, headers=key)

    async def _list(self, kind: type[T], path: str) -> list[T]:
        found = await self._ask(_Data, "GET", path)
        return msgspec.json.decode(found.data, type=list[kind])  # type: ignore[valid-type]

    async def _ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        answer = await self._request(method, path, body, query=query, headers=headers)
        return msgspec.json.decode(answer.content, type=kind)

    async def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Ask, and ask again where that is safe and may help."""
        request = self._http.build_request(
            method, path, json=body, params=query, headers=dict(headers or {})
        )
        is_repeatable = method in REPEATABLE or "Idempotency-Key" in request.headers
        for attempt in range(1, ATTEMPTS_MAX + 1):
            is_last = attempt == ATTEMPTS_MAX or not is_repeatable
            try:
                answer = await self._once(request)
            except httpx.TransportError as error:
                if is_last:
                    raise Unavailable(f"{method} {path}: {error!r}") from error
                await asyncio.sleep(self._world.jitter(0, 0.5 * 2**attempt))
                continue
            if answer.status_code not in (429, 503):
                return _checked(answer)
            if is_last:
                raise Unavailable(f"{method} {path}: {_problem(answer).detail}")
            await asyncio.sleep(_retry_after(answer) + self._world.jitter(0, 0.5))
        raise AssertionError("the last attempt ends the loop")

    async def _once(self, request: httpx.Request) -> httpx.Response:
        """One attempt; a refused token is replaced, once."""
        token = await self._tokens.current()
        request.headers["Authorization"] = f"Bearer {token}"
        answer = await self._http.send(request)
        if answer.status_code == 401:
            request.headers["Authorization"] = f"Bearer {await self._tokens.replaced(token)}"
            answer = await self._http.send(request)
        return answer


def _path(chat: str, *rest: str) -> str:
    return "/".join(["/v1/chats", *(quote(part, safe="") for part in (chat, *rest))])


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    problem = _problem(answer)
    raise Refused(problem.code, problem.detail, answer.status_code)


def _problem(answer: httpx.Response) -> _Problem:
    try:
        return msgspec.json.decode(answer.content, type=_Problem)
    except msgspec.DecodeError:
        return _Problem(detail=f"HTTP {answer.status_code}")


def _retry_after(answer: httpx.Response) -> float:
    try:
        return min(PAUSE_SECONDS_MAX, float(answer.headers.get("Retry-After", "1")))
    except ValueError:
        return 1.0
