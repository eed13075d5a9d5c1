# SPDX-License-Identifier: Apache-2.0
"""Push by a webhook of the tenant, which gets each notice once per user and notifies the devices.

The body is JSON, signed as the Standard Webhooks specification says. The tenant gives the address,
and the secret if it does not want a new one.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tidings.model.before_send import is_web_address
from tidings.model.ids import rfc3339
from tidings.model.refusals import Invalid
from tidings.model.webhook_secrets import shown_secret, signing_key
from tidings.ports.outgoing import PostFailed, PostRefused, SignedPosts
from tidings.ports.push import (
    ProviderName,
    PushCredentials,
    PushNotice,
    PushOutcome,
    PushProvider,
    PushTarget,
)
from tidings.ports.world import Chance, Clock

SECRET_CHARS_MIN: Final = 24
SECRET_CHARS_MAX: Final = 200
MADE_SECRET_BYTES: Final = 32
TIMEOUT_MS: Final = 10_000
_NOT_SENT: Final = (429, 503)
_FIELDS: Final = "webhook may contain only url and secret, which are texts"

_encode = msgspec.json.Encoder().encode


class WebhookNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A notice, as the webhook gets it."""

    user_id: str
    kind: str
    collapse_key: str
    ttl_seconds: int
    data: Mapping[str, str]
    badge: int | None = None
    title: str | None = None
    body: str | None = None


class WebhookBody(msgspec.Struct, frozen=True):
    """The body of a request."""

    type: Literal["push"]
    timestamp: str
    data: WebhookNotice


class WebhookPushProvider:
    """Posts notices to the address that the tenant gave."""

    name: ProviderName = "webhook"
    can_clear: bool = True

    def __init__(self, posts: SignedPosts, clock: Clock, chance: Chance) -> None:
        self._posts = posts
        self._clock = clock
        self._chance = chance

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        if not all(isinstance(value, str) for value in given.values()) or given.keys() - {
            "url",
            "secret",
        }:
            raise Invalid(_FIELDS, "/webhook")
        url = str(given.get("url", ""))
        secret = str(given.get("secret", (stored or {}).get("secret") or self._new_secret()))
        if not is_web_address(url):
            text = "url: must be an address such as https://example.com/push"
            raise Invalid(text, "/webhook/url")
        if not SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX:
            text = f"secret: must have {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} characters"
            raise Invalid(text, "/webhook/secret")
        return {"url": url, "secret": secret}

    def _new_secret(self) -> str:
        return shown_secret(self._chance.token(MADE_SECRET_BYTES))

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {"url": credentials["url"]}

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {}

    def accept_target(self, given: Mapping[str, object]) -> PushTarget:
        raise Invalid("provider: devices do not register for a webhook", "/provider")

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        data = WebhookNotice(
            user_id=target.address,
            kind=notice.kind,
            collapse_key=notice.collapse_key,
            ttl_seconds=notice.ttl_seconds,
            data=notice.data,
            badge=notice.badge,
            title=notice.title,
            body=notice.body,
        )
        body = _encode(WebhookBody("push", rfc3339(self._clock.now()), data))
        secrets = [signing_key(str(credentials["secret"]))]
        try:
            await self._posts.post(str(credentials["url"]), body, secrets, TIMEOUT_MS)
        except PostRefused as refused:
            return PushOutcome("refused", str(refused))
        except PostFailed as failed:
            return _outcome(failed)
        return PushOutcome("sent")


def _outcome(failed: PostFailed) -> PushOutcome:
    """Return what a failure proves. With any other status, the server may have taken the notice."""
    if failed.is_unsent or failed.status in _NOT_SENT:
        return PushOutcome("not_sent", str(failed), failed.retry_after_ms)
    if failed.status is not None and 300 <= failed.status < 500:
        return PushOutcome("refused", str(failed))
    return PushOutcome("unknown", str(failed))


_conforms: type[PushProvider] = WebhookPushProvider
