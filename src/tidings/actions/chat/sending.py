# SPDX-License-Identifier: Apache-2.0
"""Post messages. This is the hot path."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidings.actions.chat.appender import Appender
from tidings.actions.chat.retention import Retention
from tidings.actions.content.vault import Sealed, Vault
from tidings.actions.identity.quotas import Meter, TenantQuotas
from tidings.logs.requests import Requests
from tidings.metrics import declared
from tidings.model import limits, roles
from tidings.model.chats import ChatState
from tidings.model.entries import EVERYONE, Entry, SendKey, SendOptions
from tidings.model.ids import CLIENT_MESSAGE_ID, USER, ChatId, UserKey, tenant_of, user_key
from tidings.model.refusals import (
    ChatNotFound,
    ContentEmpty,
    ContentTooLarge,
    Forbidden,
    Invalid,
    MentionUnknown,
    Refusal,
    ReplyUnknown,
    UserDeleted,
)
from tidings.model.retention import KEEP_ALL
from tidings.ports.log import Declined, Log
from tidings.ports.world import Clock
from tidings.tracing.spans import CHAT_NAME, MESSAGE_ID, SEQUENCE, Attributes, Span

Answer = Callable[[Entry | Refusal, bool], None]
"""Callback that is called once, with the message or a refusal. The second argument is True if the
message was sent before and this is a replay."""

PLAIN_TEXT = "text/plain"
_EVERYONE: Final = (
    f"only admins and owners may mention everyone in a chat of more than"
    f" {limits.SMALL_CHAT_MEMBERS_MAX} members"
)


class Send:
    """A request to append a new message."""

    __slots__ = (
        "_answer", "_chat", "_content", "_content_type", "_digested", "_meter", "_options",
        "_retention", "_rule", "_sealed", "_sender", "_target", "_ttl_ms", "_vault", "attempts",
        "goes_alone", "is_claimed", "key", "requests", "span",
        "was_looked_into",
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
        retention: Retention | None,
        requests: Requests,
        span: Span | None,
        options: SendOptions | None = None,
        target: "ReplyTarget | None" = None,
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
        self._retention = retention
        self._rule = retention.rule_nowait(tenant_of(key.sender)) if retention else KEEP_ALL
        self._options = options
        self._target = target
        self.goes_alone = options is not None
        self._digested = f"{content_type}\0{ttl_ms}\0{content}"
        if options is not None:
            # The options have no slash, and each content type has one.
            self._digested = f"{options.digested}\0{self._digested}"
        self._take(
            vault.seal_nowait(key.sender, chat, key.client_message_id, content, self._digested)
        )

    @property
    def is_ready(self) -> bool:
        return (
            self._sealed is not None
            and self._rule is not None
            and (self._target is None or self._target.is_known)
            and self._vault.may_write(self._sender, self._sealed)
        )

    async def prepare(self) -> None:
        assert self.key is not None
        if self._retention is not None and self._rule is None:
            self._rule = await self._retention.rule(tenant_of(self._sender))
        if self._target is not None:
            await self._target.look()
        name = self.key.client_message_id
        self._take(
            await self._vault.seal(self._sender, self._chat, name, self._content, self._digested)
        )

    def _take(self, sealed: Sealed | None) -> None:
        self._sealed = sealed
        if sealed is not None:
            assert self.key is not None
            key = self.key
            self.key = SendKey(
                self._sender, key.client_message_id, sealed.digest, key.expires_at, key.after
            )

    def decide(self, state: ChatState, now: int) -> list[Entry]:
        if self._sender not in state.members:
            raise ChatNotFound
        if state.has_deleted_user:
            raise UserDeleted
        if self._options is not None:
            self._check_options(state, self._options)
        assert self.key is not None
        assert self._sealed is not None
        assert self._rule is not None
        lifetime = self._rule.lifetime_ms(self._chat, self._ttl_ms)
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
        return [entry]

    def _check_options(self, state: ChatState, options: SendOptions) -> None:
        if self._target is not None and not self._target.has_content:
            raise ReplyUnknown
        if options.mentions == EVERYONE:
            role = state.members[self._sender].role
            if not state.is_small and not roles.may_mention_everyone(role):
                raise Forbidden(_EVERYONE)
        elif any(user_key(state.tenant, name) not in state.members for name in options.mentions):
            raise MentionUnknown

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
        assert declined.reason == "target_gone", "only the target of a reply can be at fault"
        self.refused(ReplyUnknown())

    def refused(self, refusal: Refusal) -> None:
        if self.span is not None:
            self.span.end(error=refusal.code)
        self._answer(refusal, False)


class ReplyTarget:
    """The message that a new message answers.

    It is read before the reply is appended, because only the data key of its author shows whether
    it is erased. The store checks once more, as part of the append, that it is not redacted.
    """

    def __init__(self, log: Log, vault: Vault, clock: Clock, chat: ChatId, sequence: int) -> None:
        self._log = log
        self._vault = vault
        self._clock = clock
        self._chat = chat
        self._sequence = sequence
        self.is_known = False
        self.has_content = False

    async def look(self) -> None:
        """Read the message, unless it was read before.

        Raises:
            StoreUnavailable: The message or the data key of its author cannot be read now.
        """
        if self.is_known:
            return
        entry = await self._log.entry(self._chat, self._sequence)
        if entry is not None and entry.kind == "message":
            await self._vault.open([entry], self._clock.now())
            self.has_content = entry.gone is None
        self.is_known = True


@dataclass(frozen=True, slots=True)
class Post:
    """Post a message to a chat exactly once, however often the request is repeated."""

    appender: Appender
    log: Log
    vault: Vault
    clock: Clock
    quotas: TenantQuotas | None = None
    retention: Retention | None = None

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
    ) -> None:
        """Post the message, and call `answer` once, during this call or later.

        `after` is a sequence that the log had reached when the client first sent the message. If
        this is a repeat, the answer has the stored entry, whose content is still encrypted.
        `requests` names the request in the log; `span` is its span, if it is traced.
        """
        try:
            check_content(content)
            check_message_fields(client_message_id, content_type, ttl_seconds)
            if options is not None:
                check_mentions(options.mentions)
        except Refusal as refusal:
            answer(refusal, False)
            return
        meter = None
        if self.quotas is not None:
            meter = self.quotas.meter("messages", tenant_of(sender))
            if meter.left <= 0:
                answer(self.quotas.reached(), False)
                return
        kind = content_type or PLAIN_TEXT
        # The digest is filled in when the content is sealed, which needs the author's key.
        expires_at = self.clock.now() + limits.SEND_KEY_MS
        key = SendKey(sender, client_message_id, b"", expires_at, after)
        ttl_ms = None if ttl_seconds is None else ttl_seconds * limits.SECOND_MS
        send = Send(
            self.vault, chat, key, content, kind, ttl_ms, answer, meter, self.retention, requests,
            span, options, self._target(chat, options) if options is not None else None,
        )  # fmt: skip
        self.appender.propose(chat, send)

    def _target(self, chat: ChatId, options: SendOptions) -> ReplyTarget | None:
        if options.reply_to is None:
            return None
        return ReplyTarget(self.log, self.vault, self.clock, chat, options.reply_to)


def _facts(entry: Entry) -> Attributes:
    """Return what a span says about a message. It contains no content and no user."""
    return {MESSAGE_ID: entry.message_id, SEQUENCE: entry.sequence}


def check_content(content: str) -> None:
    """Refuse empty or too large content; the limit is in bytes of UTF-8."""
    if not content:
        raise ContentEmpty
    if len(content) * 4 > limits.CONTENT_BYTES_MAX and (
        len(content) > limits.CONTENT_BYTES_MAX or len(content.encode()) > limits.CONTENT_BYTES_MAX
    ):
        raise ContentTooLarge(f"content has more than {limits.CONTENT_BYTES_MAX} bytes")


def check_message_fields(
    client_message_id: str, content_type: str | None, ttl_seconds: int | None
) -> None:
    """Refuse a malformed id, content type or lifetime."""
    if CLIENT_MESSAGE_ID.fullmatch(client_message_id) is None:
        allowed = "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -"
        raise Invalid(f"client_message_id: {allowed}", "/client_message_id")
    if content_type is not None and not _is_content_type(content_type):
        raise Invalid("content_type: must be a media type such as text/plain", "/content_type")
    if ttl_seconds is not None and not 1 <= ttl_seconds <= limits.TTL_SECONDS_MAX:
        most = limits.TTL_SECONDS_MAX
        raise Invalid(f"ttl_seconds: must be between 1 and {most}", "/ttl_seconds")


def check_mentions(mentions: tuple[str, ...]) -> None:
    """Refuse too many mentions, and names that cannot be those of users."""
    if mentions == EVERYONE:
        return
    if len(mentions) > limits.MENTIONS_MAX:
        raise Invalid(f"mentions: at most {limits.MENTIONS_MAX}", "/mentions")
    if len(set(mentions)) < len(mentions):
        raise Invalid("mentions: must not contain a user twice", "/mentions")
    for index, name in enumerate(mentions):
        if USER.fullmatch(name) is None:
            allowed = 'must be a user id; "*" must be alone'
            raise Invalid(f"mentions: {allowed}", f"/mentions/{index}")


def _is_content_type(text: str) -> bool:
    return (
        len(text) <= limits.CONTENT_TYPE_CHARS_MAX
        and text.isascii()
        and text.isprintable()
        and 0 < text.find("/") < len(text) - 1
    )
