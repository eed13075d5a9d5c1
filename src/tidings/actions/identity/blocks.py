# SPDX-License-Identifier: Apache-2.0
"""Block users, list blocks, and cache the blocks of users who are active in this process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from tidings.actions.identity.credential_status import FeedBackedCache
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.model.blocks import BLOCKS_MAX, Block, BlockList
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import Invalid, LimitReached, UserNotAddable, UserNotFound
from tidings.ports.bus import Bus, ChatChanged
from tidings.ports.chats import Chats, Receipts
from tidings.ports.moderation import Blocks
from tidings.ports.people import UserStore
from tidings.ports.sessions import Revocation
from tidings.ports.world import Clock

CACHED_MAX: Final = 50_000
"""Number of users whose blocks are cached."""


Listener = Callable[[UserKey, BlockList | None], None]
"""Called with a user whose blocks have changed, and with the new blocks if they were read."""


class BlockLists:
    """Caches the blocks of users, which the revocation feed keeps current.

    A user's blocks are read once; then a process learns of changes within seconds from the feed.
    """

    def __init__(self, store: Blocks, watch: RevocationWatch) -> None:
        self._store = store
        self._watch = watch
        self._cached: FeedBackedCache[BlockList] = FeedBackedCache(watch, CACHED_MAX)
        self._listeners: list[Listener] = []
        watch.listen(self._reported)

    def cached(self, user: UserKey) -> BlockList | None:
        """Return the user's blocks if all of them are cached."""
        found = self._cached.get(user)
        return None if found is None or found.has_more else found

    async def of(self, user: UserKey, others: Iterable[UserKey] = ()) -> BlockList:
        """Return the user's blocks, from the cache or the store.

        If very many users block this user, only some of them are returned, but always those among
        `others`.

        Raises:
            StoreUnavailable: The store cannot be read now.
        """
        found = self._cached.get(user)
        if found is None:
            position = self._watch.position
            found = await self._store.of(user)
            self._cached.keep(user, found, position)
        if found.has_more and (unknown := [one for one in others if one not in found.blocked_by]):
            more = await self._store.blockers(user, unknown)
            found = msgspec.structs.replace(found, blocked_by={**found.blocked_by, **more})
        return found

    async def refuse_blockers(self, actor: UserKey, users: Iterable[UserKey]) -> None:
        """Refuse to add users to a group who block the actor.

        Raises:
            UserNotAddable: One of the users blocks the actor.
        """
        named = list(users)
        blocked_by = (await self.of(actor, named)).blocked_by
        if any(user in blocked_by for user in named):
            raise UserNotAddable

    def listen(self, changed: Listener) -> None:
        """Call `changed` with each user whose blocks have changed."""
        self._listeners.append(changed)

    async def changed(self, user: UserKey, other: UserKey) -> None:
        """Update the cache at once, because this process has changed the blocks of a user; `other`
        is the user who is or was blocked."""
        self._cached.forget(user)
        self._cached.forget(other)
        found = await self.of(user)
        for changed in self._listeners:
            changed(user, found)

    def _reported(self, revocations: Sequence[Revocation]) -> None:
        for user in [UserKey(one.subject) for one in revocations if one.kind == "block"]:
            self._cached.forget(user)
            for changed in self._listeners:
                changed(user, None)


class NoBlocks(BlockLists):
    """Blocks for a reader who is not a user, from whom nothing is hidden."""

    def __init__(self) -> None:
        pass

    def cached(self, user: UserKey) -> BlockList:
        return BlockList()

    async def of(self, user: UserKey, others: Iterable[UserKey] = ()) -> BlockList:
        return BlockList()


class BlockUser(msgspec.Struct, frozen=True):
    """Block another user of the tenant, or end the block."""

    store: Blocks
    lists: BlockLists
    users: UserStore
    chats: Chats
    receipts: Receipts
    bus: Bus
    clock: Clock

    async def __call__(self, user: UserKey, other: UserKey) -> None:
        """Block the other user; do nothing if the user is blocked already.

        Raises:
            Invalid: Users cannot block themselves.
            UserNotFound: The tenant has no such user.
            LimitReached: The user blocks the maximum number of users.
        """
        if user == other:
            raise Invalid("you cannot block yourself")
        if await self.users.missing([other]):
            raise UserNotFound
        before = await self.store.of(user)
        if other in before.blocked:
            return
        if len(before.blocked) >= BLOCKS_MAX:
            raise LimitReached(f"a user can block at most {BLOCKS_MAX} users")
        block = await self._block(user, other)
        await self.store.put(block)
        if block.chat_id is None:
            await self._note_chat(user, other)
        await self._changed(user, other)

    async def end(self, user: UserKey, other: UserKey) -> None:
        """End the block, if there is one."""
        await self.store.remove(user, other, self.clock.now())
        await self._changed(user, other)

    async def _block(self, user: UserKey, other: UserKey) -> Block:
        """Return the block with the receipt that the other has seen last."""
        block = Block(user=user, blocked=other, created_at=self.clock.now())
        chat = await self.chats.direct(user, other)
        receipts = await self.receipts.of_chat(chat, user) if chat is not None else None
        for own in receipts or ():
            if own.user == user:
                return msgspec.structs.replace(
                    block, chat_id=chat, delivered=own.delivered, read=own.read
                )
        return block

    async def _note_chat(self, user: UserKey, other: UserKey) -> None:
        """Note the direct chat of the two users, if it was created while the block was stored."""
        chat = await self.chats.direct(user, other)
        if chat is not None:
            await self.store.note_chat(user, other, chat, self.clock.now())

    async def _changed(self, user: UserKey, other: UserKey) -> None:
        await self.lists.changed(user, other)
        self.bus.publish(ChatChanged(user, None))


class ListBlocks(msgspec.Struct, frozen=True):
    """List the users whom a user blocks."""

    store: Blocks

    async def __call__(self, user: UserKey) -> list[Block]:
        """Return the blocks, newest first."""
        found = (await self.store.of(user)).blocked.values()
        return sorted(found, key=lambda block: (block.created_at, block.blocked), reverse=True)


class NewDirectChats(msgspec.Struct, frozen=True):
    """Apply blocks to a direct chat that was just created.

    The blocks are read from the store, because this process may not know the newest ones yet. A
    repeat applies them too, because the process that created the chat may have crashed before it
    did.
    """

    store: Blocks
    lists: BlockLists
    receipts: Receipts

    async def __call__(
        self, creator: UserKey, other: UserKey, chat: ChatId, now: int, *, is_new: bool
    ) -> None:
        """Hide the chat from a user who blocks its creator; hide receipts from blocked users."""
        found = await (self.store if is_new else self.lists).of(creator)
        blocked_by = found.blocked_by
        if found.has_more and other not in blocked_by:
            blocked_by = await self.store.blockers(creator, [other])
        blocks = [blocked_by.get(other), found.blocked.get(other)]
        missing = [block for block in blocks if block is not None and block.chat_id != chat]
        for block in missing:
            if block.user == other:
                await self.receipts.hide(other, chat, is_hidden=True)
            await self.store.note_chat(block.user, block.blocked, chat, now)
        if missing:
            await self.lists.changed(creator, other)
