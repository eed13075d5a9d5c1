# SPDX-License-Identifier: Apache-2.0
"""Post messages. This is the hot path."""

from collections.abc import Callable
from functools import partial

import msgspec

from tidings.actions.attachments.sending import Attaching, attaching, check_attachments, named_files
from tidings.actions.chat.appender import Appender
from tidings.actions.chat.before_send import BeforeSendHooks, Verdict, hooked_send
from tidings.actions.chat.message_checks import (
    CONTENT_CHARS_SURE,
    check_content,
    check_mentions,
    check_message_fields,
    check_options,
)
from tidings.actions.chat.replies import ReplyTarget
from tidings.actions.chat.retention import Retention
from tidings.actions.chat.send_queues import SendQueues
from tidings.actions.content.vault import Vault
from tidings.actions.identity.bans import Bans
from tidings.actions.identity.quotas import Meter, TenantQuotas
from tidings.logs.requests import Requests
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.chat_settings import NO_SETTINGS, check_not_frozen, check_slow_mode
from tidings.model.chats import DIRECT_MEMBERS, ChatState
from tidings.model.entries import Entry, SendKey, SendOptions
from tidings.model.file_refusals import AttachmentUsed
from tidings.model.formats import NOT_YET
from tidings.model.ids import (
    ChatId,
    UserKey,
    tenant_itself,
    tenant_of,
)
from tidings.model.refusals import (
    ChatNotFound,
    MemberNotFound,
    Refusal,
    ReplyUnknown,
    Unavailable,
    UserBanned,
    UserDeleted,
)
from tidings.model.retention import KEEP_ALL, RetentionRule
from tidings.ports.attachments import Uploads
from tidings.ports.log import Declined, Log
from tidings.ports.world import Clock
from tidings.tracing.spans import CHAT_NAME, MESSAGE_ID, SEQUENCE, Attributes, Span

Answer = Callable[[Entry | Refusal, bool], None]
"""Callback that is called once, with the message or a refusal. The second argument is True if the
message was sent before and this is a replay."""

_Draft = tuple[
    ChatId, SendKey, str, str, int | None, Answer, Meter | None, Requests, Span | None,
    SendOptions | None,
]  # fmt: skip
"""The arguments of `Send` that do not depend on the tenant's settings."""

PLAIN_TEXT = "text/plain"


class Send:
    """A request to append a new message."""

    __slots__ = (
        "_answer", "_attaching", "_chat", "_content", "_content_type", "_digested", "_meter",
        "_options", "_refusal", "_rule", "_sealed", "_sender", "_target", "_ttl_ms", "_vault",
        "attempts", "goes_alone", "is_claimed", "key", "requests", "span", "was_looked_into",
    )  # fmt: skip

    def __init__(
        self,
        vault: Vault,
        chat: ChatId,
        key: SendKey,
        content: str,
        content_type: str,
        ttl_ms: int | None,
        answer: Answer,
        meter: Meter | None,
        rule: RetentionRule,
        requests: Requests,
        span: Span | None,
        options: SendOptions | None = None,
        target: ReplyTarget | None = None,
        verdict: Verdict = None,
        attaching: Attaching | None = None,
    ) -> None:
        self.key: SendKey | None = key
        self.is_claimed = False
        self.attempts = 0
        self.was_looked_into = False
        self.requests = requests
        self.span = None if span is None else span.child("append", attributes={CHAT_NAME: chat})
        self._vault = vault
        self._chat = chat
        self._sender = key.sender
        self._content = content
        self._content_type = content_type
        self._ttl_ms = ttl_ms
        self._answer = answer
        self._meter = meter
        self._rule = rule
        self._refusal: Refusal | None = None
        self._options = options
        self._target = target
        self._attaching = attaching
        self.goes_alone = options is not None
        self._digested = f"{content_type}\0{ttl_ms}\0{content}"
        if options is not None:
            # The options have no slash, and each content type has one.
            self._digested = f"{options.digested}\0{self._digested}"
        if verdict is not None:
            # A repeat is recognised by what its client sent, whatever the hook makes of it.
            if isinstance(verdict, Refusal):
                self._refusal = verdict
            else:
                self._content = content = verdict
        sealed = vault.seal_nowait(key.sender, chat, key.client_message_id, content, self._digested)
        self._sealed = sealed
        if sealed is not None:
            key.digest = sealed.digest

    @property
    def is_ready(self) -> bool:
        return (
            self._sealed is not None
            and (self._target is None or self._target.is_known)
            and (self._attaching is None or self._attaching.is_ready)
            and self._vault.seals(self._sender, self._sealed.box_key)
        )

    async def prepare(self) -> None:
        assert self.key is not None
        if self._target is not None:
            await self._target.look()
        if self._attaching is not None:
            await self._attaching.prepare()
        name = self.key.client_message_id
        self._sealed = await self._vault.seal(
            self._sender, self._chat, name, self._content, self._digested
        )
        self.key.digest = self._sealed.digest

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        if self._sender not in state.members:
            self._check_tenant_post(state)
        if len(state.members) < DIRECT_MEMBERS and state.has_deleted_user:
            raise UserDeleted
        if state.settings is not NO_SETTINGS:
            self._check_settings(state, now)
        if self._options is not None:
            if self._target is not None and not self._target.has_content:
                raise ReplyUnknown
            check_options(state, self._sender, self._options)
        if self._refusal is not None:
            raise self._refusal
        assert self.key is not None
        assert self._sealed is not None
        lifetime = self._ttl_ms
        if self._rule is not KEEP_ALL:
            lifetime = self._rule.lifetime_ms(self._chat, lifetime)
        entry = Entry(
            chat_id=self._chat,
            kind="message",
            sender=self._sender,
            client_message_id=self.key.client_message_id,
            content_type=self._content_type,
            box=self._sealed.box,
            box_key=self._sealed.box_key,
            expires_at=None if lifetime is None else now + lifetime,
            content=self._content,
        )
        if self._options is not None:
            entry.reply_to = self._options.reply_to
            entry.mentions = self._options.mentions
            entry.silent = self._options.silent
            entry.posted_by = self._options.posted_by
        if self._attaching is not None:
            entry.files, entry.attachments = self._attaching.stored(), self._attaching.files
        return [entry]

    def _check_tenant_post(self, state: ChatState) -> None:
        """Refuse a message whose sender is not a member, unless it is the tenant itself.

        Only the tenant, which sees all of its chats, learns that the chat exists.
        """
        if self._options is None or self._options.posted_by is None:
            raise ChatNotFound
        if state.tenant != tenant_of(self._sender) or not state.members:
            raise ChatNotFound
        if self._sender != tenant_itself(state.tenant):
            raise MemberNotFound

    def _check_settings(self, state: ChatState, now: int) -> None:
        """Refuse a message in a frozen chat, or too early in slow mode, unless the tenant posts
        it."""
        if self._options is None or self._options.posted_by is None:
            role = state.members[self._sender].role
            check_not_frozen(state.settings)
            check_slow_mode(state.settings, state.sent_at, self._sender, role, now)

    def kept(self, entries: list[Entry]) -> None:
        if self._meter is not None:
            self._meter.count()
        if self.span is not None:
            self.span.end(_facts(entries[0]))
        self._answer(entries[0], False)

    def replayed(self, entry: Entry) -> None:
        declared.repeats.counts[()] += 1
        if self.span is not None:
            self.span.end({**_facts(entry), "tidings.repeat": 1})
        self._answer(entry, True)

    def declined(self, declined: Declined) -> None:
        is_used = declined.reason == "attachment_used"
        self.refused(AttachmentUsed() if is_used else ReplyUnknown())

    def refused(self, refusal: Refusal) -> None:
        if self.span is not None:
            self.span.end(error=refusal.code)
        self._answer(refusal, False)


def check_draft(
    client_message_id: str,
    content: str,
    content_type: str | None,
    ttl_seconds: int | None,
    options: SendOptions | None,
    *,
    is_scheduled: bool = False,
) -> None:
    """Refuse a message that is wrong in itself, whoever sends it to whichever chat."""
    if not content or len(content) > CONTENT_CHARS_SURE:
        if content or options is None or not options.attachments:
            check_content(content)
    check_message_fields(client_message_id, content_type, ttl_seconds, is_scheduled=is_scheduled)
    if options is not None:
        check_mentions(options.mentions)
        check_attachments(options.attachments)


class Post(msgspec.Struct, frozen=True):
    """Post a message to a chat exactly once, however often the request is repeated."""

    appender: Appender
    log: Log
    vault: Vault
    clock: Clock
    quotas: TenantQuotas | None = None
    retention: Retention | None = None
    hooks: BeforeSendHooks | None = None
    queues: SendQueues = msgspec.field(default_factory=SendQueues)
    bans: Bans | None = None
    uploads: Uploads | None = None

    def __call__(
        self,
        sender: UserKey,
        chat: ChatId,
        client_message_id: str,
        content: str,
        content_type: str | None,
        ttl_seconds: int | None,
        answer: Answer,
        *,
        after: int | None = None,
        requests: Requests = (),
        span: Span | None = None,
        options: SendOptions | None = None,
        is_scheduled: bool = False,
    ) -> None:
        """Post the message, and call `answer` once, during this call or later.

        `after` is a sequence that the log had reached when the client first sent the message. If
        this is a repeat, the answer has the stored entry, whose content is still encrypted.
        `requests` names the request in the log; `span` is its span, if it is traced.
        """
        tenant = tenant_of(sender)
        meter = None
        try:
            check_draft(
                client_message_id,
                content,
                content_type,
                ttl_seconds,
                options,
                is_scheduled=is_scheduled,
            )
            if options is not None and not self.log.may_append("message", has_options=True):
                raise Unavailable(NOT_YET)
            if self.quotas is not None:
                meter = self.quotas.meter("messages", tenant)
                if meter.left <= 0:
                    raise self.quotas.reached()
        except Refusal as refusal:
            answer(refusal, False)
            return
        # The digest is filled in when the content is sealed, which needs the author's key.
        now = self.clock.now()
        key = SendKey(sender, client_message_id, b"", now + limits.SEND_KEY_MS, after)
        ttl_ms = None if ttl_seconds is None else ttl_seconds * limits.SECOND_MS
        kind = content_type or PLAIN_TEXT
        draft = (chat, key, content, kind, ttl_ms, answer, meter, requests, span, options)
        rule = KEEP_ALL if self.retention is None else self.retention.rule_nowait(tenant, now)
        waiting = self.queues.waiting
        if rule is None or rule.hook is not None or (waiting and (sender, chat) in waiting):
            self._propose_later(draft)
        else:
            self._propose(draft, rule, None)

    def _propose(self, draft: _Draft, rule: RetentionRule, verdict: Verdict) -> None:
        """Propose a message, with the verdict of the tenant's hook.

        The sender's ban overrules the hook. A message that the tenant posts in the name of a banned
        user is not refused.
        """
        chat, key, content, kind, ttl_ms, answer, meter, requests, span, options = draft
        target = self._target(chat, options) if options is not None else None
        files = attaching(self, chat, key, options) if options is not None else None
        if self.bans is not None and self.bans.has_any and self.bans.is_banned(key.sender):
            is_tenants = options is not None and options.posted_by is not None
            verdict = verdict if is_tenants else UserBanned()
        send = Send(
            self.vault, chat, key, content, kind, ttl_ms, answer, meter, rule, requests, span,
            options, target, verdict, files,
        )  # fmt: skip
        self.appender.propose(chat, send)

    def _propose_later(self, draft: _Draft) -> None:
        """Propose the message once the rules of its tenant are read, and its hook has answered.

        The hook is not asked about messages that the tenant itself posts.
        """
        chat, key, content, kind, _, answer, _, _, _, options = draft
        sender, hooks, retention = key.sender, self.hooks, self.retention
        assert retention is not None, "without settings, no message waits for them"

        async def judge() -> tuple[RetentionRule, Verdict]:
            if hooks is None:
                return await retention.rule(tenant_of(sender)), None
            is_asked = options is None or options.posted_by is None
            files = await named_files(self, sender, options) if is_asked else ()
            hooked = hooked_send(sender, chat, key.client_message_id, content, kind, options, files)
            return await hooks.judge(sender, hooked, is_asked=is_asked)

        propose, refuse = partial(self._propose, draft), partial(_refuse, answer)
        self.queues.enter(sender, chat, judge, propose, refuse)

    def _target(self, chat: ChatId, options: SendOptions) -> ReplyTarget | None:
        if options.reply_to is None:
            return None
        return ReplyTarget(self.log, self.vault, self.clock, chat, options.reply_to)


def _refuse(answer: Answer, refusal: Refusal) -> None:
    answer(refusal, False)


def _facts(entry: Entry) -> Attributes:
    """Return what a span says about a message. It contains no content and no user."""
    return {MESSAGE_ID: entry.message_id, SEQUENCE: entry.sequence}
