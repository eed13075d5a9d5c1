# SPDX-License-Identifier: Apache-2.0
"""Chats and entries for the contract suites, and a writer as careful as the real one."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Final

from tests.contract.engines import Store
from tests.support.clock import NOW
from tests.support.users import ANN, BOB
from tidings.model import limits
from tidings.model.chat_settings import ChatSettings
from tidings.model.chats import Chat, ChatRow, ChatState, ChatType
from tidings.model.entries import Entry, Person, SendKey
from tidings.model.ids import ChatId, UserKey, tenant_itself, tenant_of, ulid
from tidings.model.limits import DAY_MS, SEND_KEY_MS
from tidings.model.push import PushRegistration
from tidings.model.reports import REPORT_MS, Report
from tidings.model.roles import Role
from tidings.model.webhooks import WebhookEndpoint
from tidings.ports.chats import RequestKey
from tidings.ports.log import Kept, Outcome, Page, Run
from tidings.stores.dynamodb.chat.packs import PACK_MESSAGES_MAX

NOWHERE: Final = ChatId("0" * 26)

_numbers = itertools.count(1)


def new_chat_id() -> ChatId:
    """A chat id that no other test uses."""
    return ChatId(ulid(NOW, next(_numbers).to_bytes(10, "big")))


# Entries, not stamped yet.


def message(
    sender: UserKey, text: str = "hi", *, cmid: str | None = None, expires_at: int | None = None
) -> Entry:
    """A message whose box is the text itself."""
    return Entry(
        chat_id=NOWHERE,
        kind="message",
        sender=sender,
        client_message_id=cmid or f"m{next(_numbers)}",
        content_type="text/plain",
        box=text.encode(),
        box_key=1,
        expires_at=expires_at,
    )


def reply(sender: UserKey, target: int, *, expires_at: int | None = None) -> Entry:
    """A message that answers the one at this sequence."""
    entry = message(sender, expires_at=expires_at)
    entry.reply_to = target
    return entry


def mention(sender: UserKey, *names: str, expires_at: int | None = None) -> Entry:
    """A message that mentions these users."""
    entry = message(sender, expires_at=expires_at)
    entry.mentions = names
    return entry


def posted(sender: UserKey) -> Entry:
    """A message that the tenant posts in somebody's name."""
    entry = message(sender)
    entry.posted_by = "tenant"
    return entry


def people(users: Sequence[UserKey], role: Role = "member") -> tuple[Person, ...]:
    """These users, all with the same role."""
    return tuple(Person(user, role) for user in users)


def added(*users: UserKey, by: UserKey = ANN, role: Role = "member") -> Entry:
    """These users join."""
    return Entry(chat_id=NOWHERE, kind="added", sender=by, people=people(users, role))


def removed(*users: UserKey, by: UserKey = ANN) -> Entry:
    """These users go."""
    return Entry(chat_id=NOWHERE, kind="removed", sender=by, people=people(users))


def role(user: UserKey, new: Role, *, by: UserKey = ANN) -> Entry:
    """The user gets another role."""
    return Entry(chat_id=NOWHERE, kind="role", sender=by, people=people([user], new))


def renamed(name: str, *, by: UserKey = ANN) -> Entry:
    """The chat gets another name."""
    return Entry(chat_id=NOWHERE, kind="renamed", sender=by, name=name)


def settings(*, frozen: bool = False, slow_mode_seconds: int = 0) -> Entry:
    """The tenant changes the settings of the chat."""
    wanted = ChatSettings(frozen, slow_mode_seconds)
    return Entry(chat_id=NOWHERE, kind="settings", sender=tenant_itself("acme"), settings=wanted)


def edited(target: int, text: str, *, by: UserKey = ANN, box_key: int = 1) -> Entry:
    """A message gets other content."""
    return Entry(
        chat_id=NOWHERE,
        kind="edited",
        sender=by,
        target=target,
        box=text.encode(),
        box_key=box_key,
    )


def redacted(target: int, *, by: UserKey = ANN) -> Entry:
    """A message loses its content."""
    return Entry(chat_id=NOWHERE, kind="redacted", sender=by, target=target)


def reacted(target: int, emoji: str, *, by: UserKey = ANN) -> Entry:
    """A reaction."""
    return Entry(chat_id=NOWHERE, kind="reacted", sender=by, target=target, emoji=emoji)


def unreacted(target: int, emoji: str, *, by: UserKey = ANN) -> Entry:
    """A reaction taken back."""
    return Entry(chat_id=NOWHERE, kind="unreacted", sender=by, target=target, emoji=emoji)


def pinned(target: int, *, by: UserKey = ANN) -> Entry:
    """A message is pinned."""
    return Entry(chat_id=NOWHERE, kind="pinned", sender=by, target=target)


def unpinned(target: int, *, by: UserKey = ANN) -> Entry:
    """A message is not pinned any more."""
    return Entry(chat_id=NOWHERE, kind="unpinned", sender=by, target=target)


def deleted(*, by: UserKey = ANN) -> Entry:
    """The chat ends."""
    return Entry(chat_id=NOWHERE, kind="deleted", sender=by)


def key(
    entry: Entry,
    digest: bytes = b"digest",
    expires_at: int = NOW + SEND_KEY_MS,
    after: int | None = None,
) -> SendKey:
    """The key to claim for a message."""
    assert entry.client_message_id is not None
    return SendKey(entry.sender, entry.client_message_id, digest, expires_at, after)


def request(
    name: str, *, user: UserKey = ANN, digest: bytes = b"digest", expires_at: int = NOW + DAY_MS
) -> RequestKey:
    """An Idempotency-Key of a request to create a chat."""
    return RequestKey(user, name, digest, expires_at)


# Writing and reading.


def draft(
    *members: UserKey, kind: ChatType = "group", name: str | None = "A chat", now: int = NOW
) -> tuple[Chat, list[Entry]]:
    """A chat to create; in a group the first member is its owner."""
    chat = Chat(
        chat_id=new_chat_id(),
        tenant="acme",
        type=kind,
        name=name if kind == "group" else None,
        creator=members[0],
        created_at=now,
    )
    first = Person(members[0], "owner" if kind == "group" else "member")
    everyone = (first, *people(members[1:]))
    state, entries = blank(chat), []
    for start in range(0, len(everyone), limits.MEMBERS_PER_ENTRY_MAX):
        entry = Entry(
            chat_id=chat.chat_id,
            kind="added" if start else "created",
            sender=members[0],
            people=everyone[start : start + limits.MEMBERS_PER_ENTRY_MAX],
            name=None if start else chat.name,
        )
        state.stamp(entry, now, "test")
        state.fold(entry)
        entries.append(entry)
    return chat, entries


def blank(chat: Chat) -> ChatState:
    """The chat before its first entry."""
    return ChatState(
        chat_id=chat.chat_id, tenant=chat.tenant, type=chat.type, name=chat.name, members={}
    )


async def a_chat(
    store: Store,
    *members: UserKey,
    kind: ChatType = "group",
    name: str | None = "A chat",
    now: int = NOW,
) -> ChatState:
    """Create a chat and know its state, as a writer does."""
    chat, entries = draft(*(members or (ANN, BOB)), kind=kind, name=name, now=now)
    await store.chats.create(chat, entries, None, now)
    state = blank(chat)
    for entry in entries:
        state.fold(entry)
    return state


async def many_chats(store: Store, user: UserKey, count: int) -> None:
    """So many chats of one user, some of them made at once."""
    for start in range(0, count, 10):
        async with asyncio.TaskGroup() as group:
            for _ in range(start, min(start + 10, count)):
                group.create_task(a_chat(store, user))


def submit(
    store: Store,
    state: ChatState,
    *entries: Entry,
    keys: Sequence[SendKey | None] | None = None,
    now: int = NOW,
) -> "asyncio.Future[Outcome]":
    """Send a run after the state's head on its way; the state takes it in if it is kept."""
    future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    claimed = state.copy()
    for entry in entries:
        entry.chat_id = state.chat_id
        claimed.stamp(entry, now, "test")
        claimed.fold(entry)

    def settle(outcome: Outcome) -> None:
        if isinstance(outcome, Kept):
            for entry in entries:
                state.fold(entry)
        future.set_result(outcome)  # raises if it is not the first time

    store.log.append(
        Run(
            chat_id=state.chat_id,
            entries=list(entries),
            keys=list(keys or [None] * len(entries)),
            settle=settle,
        )
    )
    return future


async def append(
    store: Store,
    state: ChatState,
    *entries: Entry,
    keys: Sequence[SendKey | None] | None = None,
    now: int = NOW,
) -> Outcome:
    """Append a run after the state's head and say what came of it."""
    return await submit(store, state, *entries, keys=keys, now=now)


async def append_many(store: Store, state: ChatState, entries: Sequence[Entry]) -> None:
    """Append more entries than one run of every engine holds."""
    for start in range(0, len(entries), PACK_MESSAGES_MAX):
        run = entries[start : start + PACK_MESSAGES_MAX]
        assert await append(store, state, *run) == Kept()


async def page(store: Store, state: ChatState, reader: UserKey = ANN, after: int = 0) -> Page:
    """The log after a sequence, up to a hundred entries, for a reader who must be a member."""
    found = await store.log.page(state.chat_id, reader, after=after, limit=100)
    assert found is not None
    return found


async def entry_at(store: Store, state: ChatState, sequence: int, reader: UserKey = ANN) -> Entry:
    """One entry as it is now."""
    return (await page(store, state, reader, after=sequence - 1)).entries[0]


async def row_of(store: Store, user: UserKey, chat: ChatId) -> ChatRow:
    """The chat in the list of a user who must be a member."""
    found = await store.chats.row(user, chat, NOW)
    assert found is not None
    return found


def a_report(reporter: UserKey, reported: UserKey, **fields: Any) -> Report:
    """A report of a user, or of whatever the fields say."""
    return Report(
        report_id=fields.pop("report_id", new_chat_id()),
        tenant=tenant_of(reporter),
        reporter=reporter,
        reported=reported,
        reason=fields.pop("reason", "spam"),
        created_at=fields.pop("created_at", NOW),
        expires_at=fields.pop("expires_at", NOW + REPORT_MS),
        **fields,
    )


def a_push_device(user: UserKey, device: str, target: str, **fields: Any) -> PushRegistration:
    """A device that registered a target."""
    values: dict[str, Any] = {
        "provider": "fcm",
        "app": "news",
        "box": f"box of {target}",
        "session_id": NOWHERE,
        "created_at": NOW,
        **fields,
    }
    return PushRegistration(user_id=user, device=device, digest=target, **values)


def an_endpoint(webhook_id: str = "main", **fields: Any) -> WebhookEndpoint:
    """A webhook endpoint of the tenant."""
    defaults = {
        "tenant": "acme",
        "webhook_id": webhook_id,
        "url": "https://example.com/hook",
        "events": ("message.created",),
        "enabled": True,
        "since": NOW,
        "salt": "salt",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return WebhookEndpoint(**{**defaults, **fields})
