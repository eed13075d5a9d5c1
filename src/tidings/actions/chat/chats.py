# SPDX-License-Identifier: Apache-2.0
"""Create, list, read and mute chats."""

from collections.abc import Container, Sequence
from typing import Final

import msgspec

from tidings.actions.chat.coalesced_receipts import CoalescedReceipts
from tidings.actions.chat.invites import Invitations, StrangerBudget
from tidings.actions.chat.members import check_name
from tidings.actions.chat.unread import subtract_invisible
from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.blocks import BlockLists, NewDirectChats
from tidings.actions.identity.caller import Caller, listing_owner
from tidings.actions.identity.profiles import ProfileCache
from tidings.actions.identity.quotas import Meter, TenantQuotas
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.blocks import show_as_blocked
from tidings.model.chats import Chat, ChatRow, ChatState, ChatType, TenantChat
from tidings.model.entries import Entry, Person
from tidings.model.ids import USER, ChatId, UserKey, tenant_of, ulid_time, user_id, user_key
from tidings.model.refusals import (
    ChatNotFound,
    Conflict,
    CursorInvalid,
    Invalid,
    LimitReached,
    RateLimited,
    Refusal,
    Unavailable,
    UserNotFound,
)
from tidings.model.roles import Role
from tidings.ports.bus import Appended, Bus, ChatChanged
from tidings.ports.chats import Chats, Created, RequestKey
from tidings.ports.log import Log
from tidings.ports.people import Tenants, UserStore
from tidings.ports.world import Chance, Clock, new_ulid

PUBLISHED_AGAIN_MS: Final = 60 * limits.SECOND_MS
"""How long after the creation of a direct chat a repeated request publishes its first entry
again."""


class CreateChat(msgspec.Struct, frozen=True):
    """Create a direct chat or a group."""

    chats: Chats
    users: UserStore
    vault: Vault
    bus: Bus
    clock: Clock
    chance: Chance
    strangers: StrangerBudget
    invitations: Invitations
    applied_blocks: NewDirectChats
    log: Log
    quotas: TenantQuotas | None = None

    async def __call__(
        self,
        creator: UserKey,
        type_: ChatType,
        name: str | None,
        others: Sequence[UserKey],
        request_key: str | None,
    ) -> Created:
        """Create the chat. `others` may contain duplicates and the creator; these are ignored.

        If the tenant's settings require it, strangers are invited into a group instead of being
        added.
        """
        others = [user for user in dict.fromkeys(others) if user != creator]
        check_chat(type_, name, others)
        if missing := await self.users.missing(others):
            raise UserNotFound(f"no such user: {user_id(missing[0])}")
        if type_ == "group":
            await self.applied_blocks.lists.refuse_blockers(creator, others)
        meter = self.meter(tenant_of(creator))
        now = self.clock.now()
        chat = Chat(
            chat_id=ChatId(new_ulid(self.clock, self.chance)),
            tenant=tenant_of(creator),
            type=type_,
            name=name,
            creator=creator,
            created_at=now,
        )
        strangers = await self.strangers.among(creator, others)
        must_ask = type_ == "group" and await self.invitations.must_ask(creator, strangers)
        asked = strangers if must_ask else []
        at_once = [user for user in others if user not in set(asked)]
        entries, state = first_entries(chat, [creator, *at_once], self.chance.token(8).hex())
        request = self.request(creator, type_, name, others, request_key, now)
        created = await self._create(chat, len(strangers), entries, request)
        await self.publish(created, entries, state, meter)
        if asked and name is not None:
            await self._ask(created, creator, name, asked)
        return created

    async def publish(
        self, created: Created, entries: list[Entry], state: ChatState, meter: Meter | None
    ) -> None:
        """Count a new chat, and publish its first entries; do neither if the chat existed before.

        A direct chat may be hidden at first, from a user who blocks its creator. Its first entry is
        published again while it is young, because the request that created it may have failed.
        """
        is_young = created.is_new or self._is_young(created.chat_id)
        if created.is_new:
            _count(entries, meter)
        if state.type == "direct":
            creator, other = (person.user for person in entries[0].people)
            at = entries[0].created_at
            await self.applied_blocks(creator, other, created.chat_id, at, is_new=is_young)
        if created.is_new:
            for entry in entries:
                self.bus.publish(Appended(entry, state))
        elif state.type == "direct" and is_young:
            await self._publish_again(created.chat_id)

    def _is_young(self, chat: ChatId) -> bool:
        return self.clock.now() - ulid_time(chat) <= PUBLISHED_AGAIN_MS

    async def _publish_again(self, chat: ChatId) -> None:
        """Publish the first entry of a chat, unless others follow it already."""
        state = await self.log.state(chat)
        entries = await self.log.tail(chat, 0)
        if state is not None and len(entries) == 1:
            self.bus.publish(Appended(entries[0], state))

    async def _create(
        self,
        chat: Chat,
        strangers: int,
        entries: list[Entry],
        request: RequestKey | None,
    ) -> Created:
        """Create the chat if the creator may add this many strangers today."""
        try:
            spent = await self.strangers.spend(chat.creator, strangers)
        except RateLimited:
            # A repeated request still finds the chat that exists already.
            if found := await self.chats.find(chat, entries, request, chat.created_at):
                return found
            raise
        try:
            created = await self.chats.create(chat, entries, request, chat.created_at)
        except Refusal as refusal:
            # Creation begins with the creator's row. If this row exists, strangers may have been
            # added, and remain charged.
            if isinstance(refusal, Conflict) or await self._is_missing(chat):
                await spent.give_back()
            raise
        if created.chat_id != chat.chat_id:
            await spent.give_back()  # the chat existed already
        return created

    async def _is_missing(self, chat: Chat) -> bool:
        """Return True if a read shows that nothing of the chat was created, False if something was
        or the store does not answer."""
        try:
            return await self.chats.row(chat.creator, chat.chat_id, chat.created_at) is None
        except Unavailable:
            return False

    async def _ask(
        self, created: Created, creator: UserKey, name: str, users: Sequence[UserKey]
    ) -> None:
        """Invite those users who are not members yet.

        If the request is a repeat, some of them may already be members.
        """
        present: Container[UserKey] = ()
        if not created.is_new:
            members = await self.chats.members(created.chat_id, creator)
            if members is None:
                return  # the creator has left, or the chat is deleted: nobody is invited again
            present = members
        missing = [user for user in users if user not in present]
        await self.invitations.ask_all(creator, created.chat_id, name, missing)

    def meter(self, tenant: str) -> Meter | None:
        """Return the meter of the tenant's new chats, if they are counted.

        Raises:
            QuotaReached: The tenant has created too many chats today.
        """
        if self.quotas is None:
            return None
        meter = self.quotas.meter("chats", tenant)
        if meter.left <= 0:
            raise self.quotas.reached()
        return meter

    def request(
        self,
        creator: UserKey,
        type_: ChatType,
        name: str | None,
        others: Sequence[UserKey],
        key: str | None,
        now: int,
    ) -> RequestKey | None:
        """Return the idempotency key of a request to create a chat, if it has one."""
        if key is None:
            return None
        if not 0 < len(key) <= limits.REQUEST_KEY_CHARS_MAX or not key.isprintable():
            raise Invalid(
                f"Idempotency-Key must have 1 to {limits.REQUEST_KEY_CHARS_MAX} characters"
            )
        digest = self.vault.digest(type_, name or "", *sorted(others))
        return RequestKey(creator, key, digest, now + limits.REQUEST_KEY_MS)


def _count(entries: Sequence[Entry], meter: Meter | None) -> None:
    """Count a new chat with its first entries."""
    if meter is not None:
        meter.count()
    for entry in entries:
        declared.entries.counts[entry.kind] += 1


def check_chat(type_: ChatType, name: str | None, others: Sequence[UserKey]) -> None:
    """Refuse members or a name that do not fit this type of chat."""
    if type_ == "direct":
        if len(others) != 1:
            raise Invalid("members: a direct chat has exactly one other member", "/members")
        if name is not None:
            raise Invalid("name: a direct chat has no name", "/name")
        return
    if name is None:
        raise Invalid("name: a group needs a name", "/name")
    check_name(name)
    if len(others) + 1 > limits.GROUP_MEMBERS_MAX:
        raise LimitReached(f"a group has at most {limits.GROUP_MEMBERS_MAX} members")


def first_entries(chat: Chat, users: Sequence[UserKey], mark: str) -> tuple[list[Entry], ChatState]:
    """Return the first entries of a chat with these users, and its state after them.

    The first user is the owner of a group. Each entry adds at most thirty people, because every
    store can add that many in one transaction.
    """
    role: Role = "member" if chat.type == "direct" else "owner"
    people = [Person(users[0], role), *(Person(user, "member") for user in users[1:])]
    state = ChatState(
        chat_id=chat.chat_id, tenant=chat.tenant, type=chat.type, name=chat.name, members={}
    )
    entries = []
    for start in range(0, len(people), limits.MEMBERS_PER_ENTRY_MAX):
        entry = Entry(
            chat_id=chat.chat_id,
            kind="added" if start else "created",
            sender=chat.creator,
            people=tuple(people[start : start + limits.MEMBERS_PER_ENTRY_MAX]),
            name=None if start else chat.name,
        )
        state.stamp(entry, chat.created_at, mark)
        state.fold(entry)
        entries.append(entry)
    return entries, state


class ListChats(msgspec.Struct, frozen=True):
    """Return a page of the chat list, most recent activity first."""

    chats: Chats
    profiles: ProfileCache
    vault: Vault
    cursors: Cursors
    clock: Clock
    blocks: BlockLists
    waiting: CoalescedReceipts

    async def __call__(
        self,
        user: UserKey,
        cursor: str | None,
        limit: int,
        own_message: tuple[ChatId, int] | None = None,
    ) -> tuple[list[ChatRow], str | None]:
        """Return rows with profiles and decrypted previews, and the cursor of the next page.

        `own_message` is the chat and sequence of a message that the user has sent. The list
        includes it, even if another process has just appended it.
        """
        now = self.clock.now()
        if own_message is not None:
            await self.chats.look(*own_message)
        below = self._below(user, cursor)
        await self.waiting.settle_soon(user)
        rows = await self.chats.listing(user, below=below, limit=limit + 1, now=now)
        page = rows[:limit]
        await self.vault.open([row.last for row in page if row.last], now)
        blocks = await self.blocks.of(user)
        show_as_blocked(page, blocks.blocked)
        await subtract_invisible(self.vault, page, blocks)
        await self.profiles.show(page, limits.LISTED_OTHERS_MAX)
        if len(rows) <= limit:
            return page, None
        end = (page[-1].head.active_at, page[-1].chat_id)
        # A chat may have become active while the page was read; the next page must not start over.
        payload = msgspec.json.encode(end if below is None else min(end, below))
        return page, self.cursors.seal("chats", user, payload)

    def _below(self, user: UserKey, cursor: str | None) -> tuple[int, ChatId] | None:
        if cursor is None:
            return None
        payload = self.cursors.open("chats", user, cursor)
        try:
            return msgspec.json.decode(payload, type=tuple[int, ChatId])
        except msgspec.DecodeError:
            raise CursorInvalid from None


class ListTenantChats(msgspec.Struct, frozen=True):
    """List the chats of a tenant, or of one of its users, without their content."""

    tenants: Tenants
    users: UserStore
    chats: Chats
    cursors: Cursors

    async def __call__(
        self, caller: Caller, tenant: str, user_id: str | None, cursor: str | None, limit: int
    ) -> tuple[list[TenantChat], str | None]:
        """Return a page of chats, newest first, and the cursor of the next page.

        Raises:
            UserNotFound: The tenant has no such user.
            CursorInvalid: The cursor is not for this list.
        """
        owner = await listing_owner(self.tenants, caller, tenant)
        purpose = f"tenant chats {user_id or ''}"
        below = self.cursors.position(purpose, owner, cursor)
        if user_id is None:
            page = await self.chats.of_tenant(tenant, below=below, limit=limit)
        else:
            user = user_key(tenant, user_id)
            if USER.fullmatch(user_id) is None or await self.users.get(user) is None:
                raise UserNotFound
            page = await self.chats.of_user(user, below=below, limit=limit)
        return page.rows, self.cursors.after(purpose, owner, page.end)


class GetChat(msgspec.Struct, frozen=True):
    """Return one row of the chat list, with the profiles of more members than the list shows."""

    chats: Chats
    profiles: ProfileCache
    vault: Vault
    clock: Clock
    blocks: BlockLists
    waiting: CoalescedReceipts

    async def __call__(self, user: UserKey, chat: ChatId) -> ChatRow:
        now = self.clock.now()
        await self.waiting.settle_soon(user, chat)
        row = await self.chats.row(user, chat, now)
        if row is None:
            raise ChatNotFound
        if row.last:
            await self.vault.open([row.last], now)
        blocks = await self.blocks.of(user)
        show_as_blocked([row], blocks.blocked)
        await subtract_invisible(self.vault, [row], blocks)
        await self.profiles.show([row], limits.LISTED_MEMBERS_MAX)
        return row


class Mute(msgspec.Struct, frozen=True):
    """Mute a chat until a given time, or unmute it."""

    chats: Chats
    bus: Bus

    async def __call__(
        self, user: UserKey, chat: ChatId, until: int | None, *, except_mentions: bool = False
    ) -> None:
        excepted = except_mentions and until is not None
        if not await self.chats.mute(chat, user, until, except_mentions=excepted):
            raise ChatNotFound
        self.bus.publish(ChatChanged(user, chat))
