# SPDX-License-Identifier: Apache-2.0
"""Schedule messages, and send them at their time.

At its time, a message is sent by the same action as any other message, which checks everything
again. The action is idempotent, so a process may die at any moment: the message is sent once.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidings.actions.attachments.reserving import ReserveUploads
from tidings.actions.attachments.sending import check_attachments
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.changes import change, membership_of
from tidings.actions.chat.message_checks import (
    check_content,
    check_mentions,
    check_message_fields,
    check_options,
)
from tidings.actions.chat.sending import Post
from tidings.actions.content.data_keys import is_same_send
from tidings.actions.content.vault import Vault
from tidings.actions.content.wrapping import Cursors
from tidings.actions.identity.bans import Bans
from tidings.actions.identity.credential_status import CredentialStatus
from tidings.model.chats import ChatState
from tidings.model.entries import Entry, SendOptions
from tidings.model.ids import SCHEDULED, ChatId, UserKey, tenant_of
from tidings.model.refusals import (
    Invalid,
    LimitReached,
    MessageGone,
    Refusal,
    SendConflict,
    StoreUnavailable,
    TooMany,
    Unavailable,
    UserBanned,
    UserDeactivated,
    UserDeleted,
)
from tidings.model.scheduled import (
    SETTLE_MS,
    USER_SCHEDULED_MAX,
    Scheduled,
    ScheduledNotFound,
    ScheduledTooLate,
    schedule_end,
)
from tidings.ports.bus import Bus, ScheduledFailed
from tidings.ports.due import Due, DueItems, ScheduledMessages, due_of
from tidings.ports.tenant_jobs import NotYet
from tidings.ports.world import Clock

_ATTEMPTS_MAX: Final = 3
_PURPOSE: Final = "scheduled"


class ScheduledDraft(msgspec.Struct, frozen=True):
    """A message to schedule, as its author wrote it."""

    client_message_id: str
    content: str
    content_type: str | None = None
    ttl_seconds: int | None = None
    options: SendOptions = SendOptions()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a scheduled message; None leaves a field as it is."""

    send_at: int | None = None
    content: str | None = None
    mentions: tuple[str, ...] | None = None
    silent: bool | None = None


class Scheduling(msgspec.Struct, frozen=True):
    """Schedule, list, change and cancel messages of a user."""

    appender: Appender
    scheduled: ScheduledMessages
    due: DueItems
    vault: Vault
    cursors: Cursors
    files: ReserveUploads
    clock: Clock
    bans: Bans

    async def add(
        self, user: UserKey, chat: ChatId, draft: ScheduledDraft, send_at: int
    ) -> Scheduled:
        """Schedule a message. A repeat returns the same message, even if it was sent or cancelled
        since.

        Raises:
            ChatNotFound: The user is not a member of the chat.
            SendConflict: The client_message_id was used for a different scheduled message.
            LimitReached: The user has too many scheduled messages.
            AttachmentUnknown: A file is not a finished upload of the user.
            AttachmentUsed: A file belongs to another message.
            UserBanned: The user must not write now.
        """
        now = self.clock.now()
        _check_content(draft.content, draft.options.attachments)
        check_message_fields(draft.client_message_id, draft.content_type, draft.ttl_seconds)
        check_mentions(draft.options.mentions)
        check_attachments(draft.options.attachments)
        message = await self._sealed(user, chat, draft, send_at, now)
        stored = await self._stored(message, draft.options, now)
        if not is_same_send(message.digest, stored.digest):
            raise SendConflict
        return stored

    async def _stored(self, message: Scheduled, options: SendOptions, now: int) -> Scheduled:
        if message.send_at <= now or message.attachments:
            # Only a repeat may have a time that has passed, or files that are sent already.
            found = await self.scheduled.get(message.user_id, message.scheduled_id)
            if found is not None:
                return found
        self._check_time(message.send_at, now)
        try:
            self.bans.check(message.user_id)
            await self._check_chat(message.user_id, message.chat_id, options)
        except Refusal:
            # Only a repeat may be for a chat that its author has left since, or of a banned author.
            found = await self.scheduled.get(message.user_id, message.scheduled_id)
            if found is None:
                raise
            return found
        reserved = (message.user_id, message.attachments, message.scheduled_id)
        await self.files.reserve(*reserved)
        await self._put_due(message, now)
        stored = await self.scheduled.add(message)
        if stored is None:
            await self.due.drop(due_of(message))
            await self.files.release(*reserved)
            raise LimitReached(f"a user can have at most {USER_SCHEDULED_MAX} scheduled messages")
        return stored

    async def list(
        self, user: UserKey, cursor: str | None, limit: int
    ) -> tuple[list[tuple[Scheduled, str | None]], str | None]:
        """Return messages that are pending or have failed, each with its content, and the cursor of
        the next page. The messages of a page are in the order of their times."""
        after = self.cursors.position(_PURPOSE, user, cursor)
        page = await self.scheduled.page(user, after=after, limit=limit, now=self.clock.now())
        rows = sorted(page.rows, key=lambda message: (message.send_at, message.scheduled_id))
        found = [(message, await self._content(message)) for message in rows]
        return found, self.cursors.after(_PURPOSE, user, page.end)

    async def change(
        self, user: UserKey, scheduled_id: str, wanted: Change
    ) -> tuple[Scheduled, str | None]:
        """Change a pending message; return it with its content.

        Raises:
            ScheduledNotFound: The user has no such message.
            ScheduledTooLate: The message is not pending any more.
            ChatNotFound: There are new mentions, and the user is not a member of the chat any more.
            MentionUnknown: A mentioned user is not a member of the chat.
        """
        now = self.clock.now()
        check_mentions(wanted.mentions or ())
        if wanted.send_at is not None:
            self._check_time(wanted.send_at, now)
        for _ in range(_ATTEMPTS_MAX):
            before = await self._pending(user, scheduled_id)
            if wanted.content is not None:
                _check_content(wanted.content, before.attachments)
            if wanted.mentions:
                options = SendOptions(mentions=wanted.mentions)
                await self._check_chat(user, before.chat_id, options)
            after = await self._changed(before, wanted, now)
            if after.send_at != before.send_at:
                await self._put_due(after, now)
            if await self.scheduled.replace(before, after):
                if after.send_at != before.send_at:
                    await self.due.drop(due_of(before))
                return after, await self._content(after)
        raise StoreUnavailable("the message is being changed by other requests")

    async def cancel(self, user: UserKey, scheduled_id: str) -> None:
        """Cancel a pending message. A repeat changes nothing.

        Raises:
            ScheduledNotFound: The user has no such message.
            ScheduledTooLate: The message is not pending any more.
        """
        for _ in range(_ATTEMPTS_MAX):
            found = await self._find(user, scheduled_id)
            if found is not None and found.state == "cancelled":
                return
            before = await self._pending(user, scheduled_id)
            if await self.scheduled.replace(before, before.cancelled(self.clock.now())):
                await self.due.drop(due_of(before))
                await self.files.release(user, before.attachments, scheduled_id)
                return
        raise StoreUnavailable("the message is being changed by other requests")

    def _check_time(self, send_at: int, now: int) -> None:
        if not now < send_at <= schedule_end(now):
            raise Invalid("send_at: must be in the future, and at most one year ahead", "/send_at")

    async def _check_chat(self, user: UserKey, chat: ChatId, options: SendOptions) -> None:
        def check(state: ChatState, _now: int) -> list[Entry]:
            membership_of(state, user)
            if state.has_deleted_user:
                raise UserDeleted
            check_options(state, user, options)
            return []

        await change(self.appender, chat, check)

    async def _sealed(
        self, user: UserKey, chat: ChatId, draft: ScheduledDraft, send_at: int, now: int
    ) -> Scheduled:
        options = draft.options
        scheduled_id = self.vault.digest(_PURPOSE, user, chat, draft.client_message_id).hex()
        message = Scheduled(
            user_id=user,
            scheduled_id=scheduled_id,
            chat_id=chat,
            client_message_id=draft.client_message_id,
            send_at=send_at,
            content_type=draft.content_type,
            ttl_seconds=draft.ttl_seconds,
            digest=b"",
            reply_to=options.reply_to,
            mentions=options.mentions,
            silent=options.silent,
            attachments=options.attachments,
            created_at=now,
            updated_at=now,
        )
        fields = (send_at, draft.content_type, draft.ttl_seconds, options.digested, draft.content)
        digested = "\0".join(map(str, fields))
        sealed = await self.vault.seal(user, chat, message.sent_as, draft.content, digested)
        return msgspec.structs.replace(
            message, box=sealed.box, box_key=sealed.box_key, digest=sealed.digest
        )

    async def _changed(self, before: Scheduled, wanted: Change, now: int) -> Scheduled:
        after = msgspec.structs.replace(
            before,
            send_at=before.send_at if wanted.send_at is None else wanted.send_at,
            mentions=before.mentions if wanted.mentions is None else wanted.mentions,
            silent=before.silent if wanted.silent is None else wanted.silent,
            updated_at=max(now, before.updated_at + 1),
        )
        if wanted.content is None:
            return after
        sealed = await self.vault.seal(
            before.user_id, before.chat_id, before.sent_as, wanted.content
        )
        return msgspec.structs.replace(after, box=sealed.box, box_key=sealed.box_key)

    async def _put_due(self, message: Scheduled, now: int) -> None:
        """Store the time of the message. The message is stored afterwards, so that none lacks its
        time."""
        await self.due.put(due_of(message), now)
        if self.clock.now() > now + SETTLE_MS // 2:
            raise StoreUnavailable("the store is too slow to schedule a message")

    async def _find(self, user: UserKey, scheduled_id: str) -> Scheduled | None:
        if SCHEDULED.fullmatch(scheduled_id) is None:
            return None
        return await self.scheduled.get(user, scheduled_id)

    async def _pending(self, user: UserKey, scheduled_id: str) -> Scheduled:
        found = await self._find(user, scheduled_id)
        if found is None or found.state == "cancelled":
            raise ScheduledNotFound
        if found.state != "pending":
            raise ScheduledTooLate
        return found

    async def _content(self, message: Scheduled) -> str | None:
        entry = message.as_entry()
        await self.vault.open([entry], self.clock.now())
        return entry.content


class SendScheduled(msgspec.Struct, frozen=True):
    """Sends scheduled messages that are due."""

    post: Post
    scheduled: ScheduledMessages
    vault: Vault
    credential_status: CredentialStatus
    bus: Bus
    files: ReserveUploads
    clock: Clock

    async def do(self, due: Due) -> bool:
        """Send the message that is due, unless it was sent, changed or cancelled.

        Returns False if the message may get the same time again.

        Raises:
            NotYet: The message may be one that is still being stored.
            Unavailable: The message must be sent again later.
        """
        user = UserKey(due.subject)
        message = await self.scheduled.fire(user, due.item_id, due.at)
        if message is None or message.state == "pending":
            # The message has no such time. Perhaps the request that gives it this time still runs.
            if self.clock.now() < due.made_at + SETTLE_MS:
                raise NotYet(due.made_at + SETTLE_MS)
            return False
        if message.state == "firing":
            await self._send(message)
        return True

    async def give_up(self, due: Due) -> None:
        """Mark a message as failed, because sending it failed unexpectedly several times."""
        message = await self.scheduled.get(UserKey(due.subject), due.item_id)
        if message is not None and message.is_open:
            await self._fail(message, "internal")

    async def _send(self, message: Scheduled) -> None:
        try:
            entry = await self._posted(message)
        except TooMany as refusal:
            await self._fail(message, refusal.code)
        except Unavailable:
            raise
        except Refusal as refusal:
            await self._fail(message, refusal.code)
        else:
            await self.scheduled.finish(message.sent(entry.sequence, self.clock.now()))

    async def _posted(self, message: Scheduled) -> Entry:
        user = message.user_id
        await self._check_author(user)
        opened = message.as_entry()
        await self.vault.open([opened], self.clock.now(), for_good=True)
        if opened.content is None:
            raise MessageGone
        answered: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self.post(
            user,
            message.chat_id,
            message.sent_as,
            opened.content,
            message.content_type,
            message.ttl_seconds,
            _answer(answered),
            options=message.options,
            is_scheduled=True,
        )
        return await answered

    async def _check_author(self, user: UserKey) -> None:
        """Refuse a message for which a request of its author would be refused before it reaches the
        chat."""
        stored = await self.credential_status.stored(user, None)  # also takes notice of a ban
        if not stored.is_known or stored.deleted_at is not None:
            raise UserDeleted
        is_active = await self.credential_status.is_tenant_active(tenant_of(user))
        if stored.deactivated_at is not None or not is_active:
            raise UserDeactivated
        if (stored.banned_until or 0) > self.clock.now():
            # This process may know nothing of the ban: the author need not have used it.
            raise UserBanned

    async def _fail(self, message: Scheduled, code: str) -> None:
        failed = message.failed(code, self.clock.now())
        await self.scheduled.finish(failed)
        await self.files.release(message.user_id, message.attachments, message.scheduled_id)
        self.bus.publish(ScheduledFailed(failed.user_id, failed.chat_id, failed.scheduled_id, code))


def _check_content(content: str, attachments: Sequence[str]) -> None:
    """Refuse content that is too long, or empty without files."""
    if content or not attachments:
        check_content(content)


def _answer(answered: "asyncio.Future[Entry]") -> Callable[[Entry | Refusal, bool], None]:
    def answer(outcome: Entry | Refusal, _is_replay: bool) -> None:
        if answered.done():
            return
        if isinstance(outcome, Refusal):
            answered.set_exception(outcome)
        else:
            answered.set_result(outcome)

    return answer
