# SPDX-License-Identifier: Apache-2.0
"""Import a history from another system into a tenant, with its original times.

The progress of an import is not stored. The id of a chat depends only on the tenant, and on the
chat's name and time in the file. Messages are appended in the order of the file. A repeated import
therefore sees in each log how many messages were imported, and appends only the rest.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tidings.actions.chat.chats import first_entries
from tidings.actions.chat.retention import Retention
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.export.history_lines import (
    BadLine,
    HistoryChat,
    HistoryMessage,
    HistoryReader,
    HistoryUser,
    keys_of,
)
from tidings.model import limits
from tidings.model.chats import Chat, ChatState, Move
from tidings.model.entries import Entry
from tidings.model.ids import TENANT_ITSELF, ChatId, UserKey, from_rfc3339, ulid, user_key
from tidings.model.refusals import Refusal, StoreUnavailable, UserDeleted
from tidings.ports.chats import RequestKey
from tidings.ports.log import Failed, Kept, Outcome, Run
from tidings.ports.store import Store
from tidings.ports.world import Chance, Clock

BUFFERED_MAX = 1_000
"""Messages that are read before they are appended, so that those of one chat share a write."""


class _OpenChat(msgspec.Struct):
    """A chat of the file, and the progress of its import."""

    state: ChatState
    there: int
    """Number of messages in the log when this import reached the chat."""
    last_id: str | None
    """The id of the last message that was in the log then."""
    passed: int = 0
    """Number of messages in the file that were already in the log."""
    waiting: list[tuple[int, HistoryMessage]] = []
    """Messages that are not appended yet, with the numbers of their lines."""


class HistoryImport:
    """Imports one file into one tenant."""

    def __init__(
        self,
        store: Store,
        vault: Vault,
        retention: Retention,
        clock: Clock,
        chance: Chance,
        tenant: str,
    ) -> None:
        self._store = store
        self._vault = vault
        self._retention = retention
        self._clock = clock
        self._mark = chance.token(8).hex()
        self._tenant = tenant
        self._chats: dict[str, _OpenChat] = {}
        self._waiting = 0
        self.messages = 0
        """Number of messages that this import has appended."""

    async def run(self, lines: Iterable[bytes], report: Callable[[int], None]) -> None:
        """Import all lines that are not imported yet; `report` is called with line numbers.

        Raises:
            BadLine: A line breaks a rule, or contradicts stored data of the tenant.
            StoreUnavailable: The store does not answer. A repeated import continues.
        """
        for number, item in HistoryReader(self._clock.now()).items(lines):
            try:
                match item:
                    case BadLine():
                        raise item
                    case HistoryUser():
                        await self._user(item)
                    case HistoryChat():
                        await self._chat(number, item)
                    case _:
                        await self._message(number, item)
            except StoreUnavailable:
                raise
            except Refusal as refusal:
                raise BadLine(number, refusal.detail) from None
            report(number)
        await self._flush()
        await self._mark_read()

    async def _user(self, line: HistoryUser) -> None:
        user = user_key(self._tenant, line.id)
        found = await self._store.users.get(user)
        if found is not None and found.deleted_at is not None:
            raise UserDeleted
        if found is None:
            at = from_rfc3339(line.created_at)
            await self._store.users.put(
                user, display_name=line.display_name, phone_number=None, now=at
            )

    async def _chat(self, number: int, line: HistoryChat) -> None:
        users = keys_of(self._tenant, line.members)
        at, now = from_rfc3339(line.created_at), self._clock.now()
        chat = Chat(
            chat_id=chat_id_of(self._tenant, line.id, at),
            tenant=self._tenant,
            type=line.type,
            name=line.name,
            creator=users[0],
            created_at=at,
        )
        if await self._store.log.state(chat.chat_id) is None:
            entries, _ = first_entries(chat, users, self._mark)
            digest = self._vault.digest("history", *line.members)
            # With a key, a repeated import completes a group that needs several transactions.
            key = RequestKey(
                users[0], f"history:{chat.chat_id}", digest, now + limits.REQUEST_KEY_MS
            )
            created = await self._store.chats.create(chat, entries, key, now)
            if created.chat_id != chat.chat_id:
                both = " and ".join(line.members)
                raise BadLine(number, f"{both} have a direct chat already")
        self._chats[line.id] = await self._open(chat.chat_id)

    async def _open(self, chat: ChatId) -> _OpenChat:
        state = await self._store.log.state(chat)
        assert state is not None, "the chat exists"
        if not state.number:
            return _OpenChat(state, 0, None)
        (last, *_) = await self._store.log.tail(chat, state.last_message - 1)
        return _OpenChat(state, state.number, last.client_message_id)

    async def _message(self, number: int, line: HistoryMessage) -> None:
        chat = self._chats[line.chat]
        if chat.passed < chat.there:
            chat.passed += 1
            if chat.passed == chat.there and chat.last_id != line.id:
                raise BadLine(number, f"somebody has written in {line.chat} since it was imported")
            return
        chat.waiting.append((number, line))
        self._waiting += 1
        if self._waiting >= BUFFERED_MAX:
            await self._flush()

    async def _flush(self) -> None:
        """Append all messages that were read, to several chats at the same time."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for chat in self._chats.values():
                    if chat.waiting:
                        tasks.create_task(self._append(chat))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._waiting = 0

    async def _append(self, chat: _OpenChat) -> None:
        while chat.waiting:
            state = chat.state.copy()
            entries: list[Entry] = []
            sealed: list[tuple[UserKey, Sealed]] = []
            for number, line in chat.waiting:
                _check_fits(chat.state, number, line)
                author, box = await self._seal(state.chat_id, line)
                entry = await self._entry(state.chat_id, line, box)
                if entries and not self._store.log.has_room(entries, entry):
                    break
                state.stamp(entry, from_rfc3339(line.created_at), self._mark)
                state.fold(entry)
                entries.append(entry)
                sealed.append((author, box))
            match await self._settled(state.chat_id, entries, sealed):
                case Kept():
                    chat.state = state
                    del chat.waiting[: len(entries)]
                    self.messages += len(entries)
                case Failed():
                    raise StoreUnavailable
                case _:
                    # Somebody else writes in the chat, or a key has changed.
                    chat.state = await self._state(state.chat_id)

    async def _state(self, chat: ChatId) -> ChatState:
        state = await self._store.log.state(chat)
        assert state is not None, "the chat exists"
        return state

    async def _seal(self, chat: ChatId, line: HistoryMessage) -> tuple[UserKey, Sealed]:
        sender = user_key(self._tenant, line.sender)
        return sender, await self._vault.seal(sender, chat, line.id, line.content)

    async def _entry(self, chat: ChatId, line: HistoryMessage, box: Sealed) -> Entry:
        at = from_rfc3339(line.created_at)
        rule = await self._retention.rule(self._tenant)
        lifetime = rule.lifetime_ms(chat, None)
        return Entry(
            chat_id=chat,
            kind="message",
            sender=user_key(self._tenant, line.sender),
            client_message_id=line.id,
            content_type=line.content_type,
            box=box.box,
            box_key=box.box_key,
            posted_by=line.posted_by,
            expires_at=None if lifetime is None else at + lifetime,
        )

    async def _settled(
        self, chat: ChatId, entries: list[Entry], sealed: Sequence[tuple[UserKey, Sealed]]
    ) -> Outcome:
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        run = Run(
            chat_id=chat,
            entries=entries,
            keys=[None] * len(entries),
            settle=done.set_result,
            may_write=lambda: all(self._vault.may_write(*one) for one in sealed),
        )
        self._store.log.append(run)
        return await done

    async def _mark_read(self) -> None:
        """Mark the imported messages as read, because the users have read them in the other
        system."""
        for chat in self._chats.values():
            if chat.passed < chat.there:
                continue  # the log has more messages than the file: they were written since
            last = chat.state.last_message
            for user in chat.state.members:
                move = Move(user, chat.state.chat_id, delivered=last, read=last)
                await self._store.receipts.advance(move)


def _check_fits(state: ChatState, number: int, line: HistoryMessage) -> None:
    """Check that the message of a line can follow the head of the chat's log.

    Raises:
        BadLine: The chat was deleted, or changed by its members, since it was imported.
    """
    if state.is_deleted:
        raise BadLine(number, f"{line.chat} was deleted since it was imported")
    is_tenant = line.sender == TENANT_ITSELF
    if not is_tenant and user_key(state.tenant, line.sender) not in state.members:
        raise BadLine(number, f"{line.sender} is no longer a member of {line.chat}")
    if from_rfc3339(line.created_at) < state.active_at:
        raise BadLine(number, f"{line.chat} was changed since it was imported")


def chat_id_of(tenant: str, name: str, created_at: int) -> ChatId:
    """Return the id of an imported chat, which is the same at every import."""
    digest = hashlib.sha256(f"tidings history\0{tenant}\0{name}".encode()).digest()
    return ChatId(ulid(created_at, digest[:10]))
