# SPDX-License-Identifier: Apache-2.0
"""Asks the hook of a tenant about each message, before the message is appended or edited.

If the hook does not answer, the tenant's settings decide. A hook that fails again and again is not
asked for some seconds.
"""

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Literal

import msgspec

from tidings.actions.chat.retention import Retention
from tidings.actions.identity.caller import Caller, listing_owner
from tidings.caches import LruCache
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.attachments import File
from tidings.model.before_send import BeforeSend
from tidings.model.entries import SendOptions
from tidings.model.ids import ChatId, UserKey, rfc3339, tenant_of, user_id
from tidings.model.refusals import (
    HookUnavailable,
    Refusal,
    SendDeclined,
)
from tidings.model.retention import RetentionRule
from tidings.ports.outgoing import PostFailed, SignedPosts
from tidings.ports.people import Tenants
from tidings.ports.world import Clock

log = logging.getLogger("tidings.hooks")

CALLS_AT_ONCE: Final = 100
"""Maximum number of requests to the hook of a tenant at the same time."""
FAILURES_MAX: Final = 10
"""Number of failures in a row after which a hook is not asked for `PAUSE_MS`."""
PAUSE_MS: Final = 5 * limits.SECOND_MS
TENANTS_MAX: Final = 10_000
TEXT_CHARS_MAX: Final = 500
_SECRET: Final = "before-send hook"

Verdict = str | Refusal | None
"""The content that replaces that of a message, or the refusal to answer with, or None if the
message stays as it is."""


class HookedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message, in the form in which the hook gets it."""

    attachment_id: str
    name: str
    content_type: str
    size: int


class HookedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, in the form in which the hook gets it."""

    action: Literal["send", "edit"]
    chat_id: str
    sender_id: str
    content: str
    content_type: str
    client_message_id: str | None = None
    sequence: int | None = None
    """Sequence of the message that is edited."""
    reply_to: int | None = None
    mentions: tuple[str, ...] = ()
    attachments: tuple[HookedFile, ...] = ()


class HookBody(msgspec.Struct, frozen=True):
    """Body of a request to a hook."""

    type: str
    timestamp: str
    data: HookedMessage


class HookAnswer(msgspec.Struct, frozen=True):
    """The answer of a hook."""

    verdict: Literal["allow", "decline", "replace"] = "allow"
    text: str = ""
    content: str | None = None


_ALLOWED: Final = HookAnswer()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HookAnswer).decode


class _Circuit:
    """What is known about the hook of one tenant."""

    __slots__ = ("failures", "retry_at", "running")

    def __init__(self) -> None:
        self.running = 0
        self.failures = 0
        self.retry_at = 0
        """Time before which the hook is not asked."""


def hook_secrets(digest: Callable[..., bytes], tenant: str, version: int) -> list[bytes]:
    """Return the secrets that sign requests to the tenant's hook, the newest first.

    They are derived from a secret of the deployment, so nothing has to be stored.
    """
    versions = [version, version - 1] if version > 1 else [version]
    return [
        digest(_SECRET, tenant, str(number), "1") + digest(_SECRET, tenant, str(number), "2")
        for number in versions
    ]


class BeforeSendHooks:
    """Asks the hooks of tenants."""

    def __init__(
        self,
        retention: Retention,
        posts: SignedPosts,
        digest: Callable[..., bytes],
        check: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """Create the object; `check` refuses content that no message may have."""
        self._retention = retention
        self._posts = posts
        self._digest = digest
        self._check = check
        self._clock = clock
        self._circuits: LruCache[str, _Circuit] = LruCache(TENANTS_MAX)

    async def judge(
        self,
        sender: UserKey,
        message: HookedMessage,
        *,
        is_asked: bool = True,
        has_files: bool = False,
    ) -> tuple[RetentionRule, Verdict]:
        """Return the rules of the sender's tenant, and the verdict of its hook.

        `has_files` says that the edited message has files, which the hook is not told again.

        Raises:
            StoreUnavailable: The settings of the tenant cannot be read.
        """
        tenant = tenant_of(sender)
        rule = await self._retention.rule(tenant)
        if rule.hook is None or not is_asked:
            return rule, None
        began, answer = monotonic(), await self._ask(rule.hook, tenant, message, has_files)
        outcome = "failed" if answer is None else answer.verdict
        declared.before_send_seconds.of[outcome].observe(monotonic() - began)
        if answer is None:
            return rule, None if rule.hook.on_failure == "allow" else HookUnavailable()
        if answer.verdict == "decline":
            return rule, SendDeclined(answer.text[:TEXT_CHARS_MAX])
        return rule, answer.content if answer.verdict == "replace" else None

    async def _ask(
        self, hook: BeforeSend, tenant: str, message: HookedMessage, has_files: bool
    ) -> HookAnswer | None:
        """Return the answer of the hook; None if there is none."""
        circuit = self._circuits.get(tenant)
        if circuit is None:
            circuit = _Circuit()
            self._circuits.put(tenant, circuit)
        now = self._clock.now()
        if circuit.running >= CALLS_AT_ONCE or now < circuit.retry_at:
            return None
        if circuit.failures >= FAILURES_MAX:
            circuit.retry_at = now + PAUSE_MS  # until this request is answered, no other is made
        circuit.running += 1
        try:
            body = HookBody("message.before_send", rfc3339(now), message)
            secrets = hook_secrets(self._digest, tenant, hook.secret_version)
            answered = await self._posts.post(hook.url, _encode(body), secrets, hook.timeout_ms)
            answer = self._read(answered, may_be_empty=has_files or bool(message.attachments))
        except PostFailed as failed:
            self._note_failure(circuit, tenant, str(failed))
            return None
        finally:
            circuit.running -= 1
        circuit.failures = circuit.retry_at = 0
        return answer

    def _read(self, answered: bytes, *, may_be_empty: bool) -> HookAnswer:
        if not answered.strip():
            return _ALLOWED
        try:
            answer = _decode(answered)
            if answer.verdict == "replace" and (answer.content != "" or not may_be_empty):
                self._check(answer.content or "")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Refusal):
            raise PostFailed("the answer is not valid") from None
        return answer

    def _note_failure(self, circuit: _Circuit, tenant: str, reason: str) -> None:
        circuit.failures += 1
        if circuit.failures < FAILURES_MAX:
            return
        circuit.retry_at = self._clock.now() + PAUSE_MS
        if circuit.failures % FAILURES_MAX == 0:
            log.warning(
                "a before-send hook fails",
                extra={"action": "hook_failed", "tenant": tenant, "reason": reason},
            )


def hooked_send(
    sender: UserKey,
    chat: ChatId,
    client_message_id: str,
    content: str,
    content_type: str,
    options: SendOptions | None,
    files: Sequence[File] = (),
) -> HookedMessage:
    """Return a message that is sent, in the form in which the hook gets it."""
    return HookedMessage(
        action="send",
        chat_id=chat,
        sender_id=user_id(sender),
        content=content,
        content_type=content_type,
        client_message_id=client_message_id,
        reply_to=None if options is None else options.reply_to,
        mentions=() if options is None else options.mentions,
        attachments=tuple(
            HookedFile(
                attachment_id=file.attachment_id,
                name=file.name,
                content_type=file.content_type,
                size=file.size,
            )
            for file in files
        ),
    )


class GetHookSecret(msgspec.Struct, frozen=True):
    """Show the secret that signs requests to a tenant's hook."""

    tenants: Tenants
    digest: Callable[..., bytes]

    async def __call__(self, caller: Caller, tenant: str, version: int) -> bytes:
        """Return the secret with this version, whether it is used already or not.

        Raises:
            TenantNotFound: There is no such tenant, or it is not the caller's.
        """
        await listing_owner(self.tenants, caller, tenant)
        return hook_secrets(self.digest, tenant, version)[0]
