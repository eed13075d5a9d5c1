# SPDX-License-Identifier: Apache-2.0
"""Provider for browsers: Web Push, by RFC 8030 with the encryption of RFC 8291.

The browser chooses the push service, and the page of a user gives us its address. That address is
not trusted: requests go to public addresses only, and what it answers is not repeated to anybody.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tidings.model import limits
from tidings.model.addresses import Networks
from tidings.outgoing.push.answers import NoAnswer, ServiceAnswer, ServicePosts, not_sent
from tidings.outgoing.push.elliptic_keys import (
    from_base64url,
    new_private_key,
    read_private_key,
    read_public_key,
    to_base64url,
    write_private_key,
    write_public_key,
)
from tidings.outgoing.push.encryption import (
    AUTH_BYTES,
    SALT_BYTES,
    TEXT_BYTES_MAX,
    SubscriptionKeys,
    encrypt,
    padded_length,
)
from tidings.outgoing.push.fields import Fields
from tidings.outgoing.push.loading import require
from tidings.outgoing.push.texts import fitting
from tidings.outgoing.push.vapid import VapidHeaders, VapidKeys
from tidings.ports.push import (
    ProviderName,
    PushCredentials,
    PushNotice,
    PushOutcome,
    PushProvider,
    PushTarget,
)
from tidings.ports.world import Chance, Clock

ENDPOINT_CHARS_MAX: Final = 2_048
TOPIC_CHARS: Final = 32
"""Longest topic of a push message, by RFC 8030."""
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}={0,2}")
_SUBJECT: Final = re.compile(r"mailto:[!-~]{1,200}@[!-~]{1,200}|https://[!-~]{1,400}")
_ENDPOINT: Final = re.compile(rf"https?://[!-~]{{1,{ENDPOINT_CHARS_MAX - 8}}}")


class WebPushProvider:
    """Encrypts each notice for its browser, and posts it to the browser's push service."""

    name: ProviderName = "webpush"
    can_clear = False  # browsers expect that every message shows something

    def __init__(
        self, posts: ServicePosts, clock: Clock, chance: Chance, allowed: Networks
    ) -> None:
        self._posts = posts
        self._clock = clock
        self._chance = chance
        self._allowed = allowed
        self._headers = VapidHeaders()

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        require("aiohttp")
        fields = Fields(f"/{self.name}", given, ("subject", "public_key", "private_key"))
        subject = fields.optional_text("subject", _SUBJECT, "a mailto: or https: address")
        public = fields.optional_text("public_key", _KEY, "a key in base64url")
        private = fields.optional_text("private_key", _KEY, "a key in base64url")
        if private is not None:
            try:
                key = read_private_key(from_base64url(private))
            except ValueError:
                raise fields.refusal("private_key", "must be a private key of P-256") from None
        elif public is not None and (stored is None or not _is_same(public, stored)):
            raise fields.refusal("private_key", "must be given with a public key")
        elif stored is not None:
            key = read_private_key(from_base64url(str(stored["private_key"])))
        else:
            key = new_private_key(self._chance)
        made = {
            "public_key": to_base64url(write_public_key(key.public_key())),
            "private_key": to_base64url(write_private_key(key)),
        }
        if public is not None and not _is_same(public, made):
            raise fields.refusal("public_key", "does not belong to the private key")
        return made if subject is None else {**made, "subject": subject}

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {name: value for name, value in credentials.items() if name != "private_key"}

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {"vapid_public_key": credentials["public_key"]}

    def accept_target(self, given: Mapping[str, object]) -> PushTarget:
        registration = Fields("", given, ("provider", "subscription"))
        fields = Fields("/subscription", registration.mapping("subscription"))
        expected = "an https address"
        endpoint = fields.text("endpoint", _ENDPOINT, expected)
        if not self._may_be_endpoint(endpoint):
            raise fields.refusal("endpoint", f"must be {expected}")
        keys = Fields("/subscription/keys", fields.mapping("keys"))
        return PushTarget(
            provider=self.name,
            address=endpoint,
            keys=(
                _checked_key(keys, "p256dh", "a public key of P-256 in base64url"),
                _checked_key(keys, "auth", "16 bytes in base64url"),
            ),
        )

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        assert target.keys is not None, "`accept_target` gave it keys"
        text = fitting(notice, _form, TEXT_BYTES_MAX)
        if text is None:
            return PushOutcome("refused", "too large")
        body = encrypt(
            text,
            SubscriptionKeys(*(from_base64url(key) for key in target.keys)),
            sender=new_private_key(self._chance),
            salt=self._chance.token(SALT_BYTES),
            padded_to=padded_length(len(text)),
        )
        now = self._clock.now()
        try:
            answer = await self._posts.post(
                target.address, self._request_headers(credentials, target, notice, now), body
            )
        except NoAnswer as failure:
            return failure.outcome
        return _outcome_of(answer, now)

    def _request_headers(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice, now: int
    ) -> dict[str, str]:
        subject = credentials.get("subject")
        keys = VapidKeys(
            str(credentials["public_key"]),
            str(credentials["private_key"]),
            None if subject is None else str(subject),
        )
        return {
            "Authorization": self._headers.authorization(
                keys, target.address, now // limits.SECOND_MS
            ),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(notice.ttl_seconds),
            "Topic": topic_of(notice.collapse_key),
            "Urgency": "normal" if notice.kind == "notification" else "high",
        }

    def _may_be_endpoint(self, endpoint: str) -> bool:
        """Return True for https, and for http within a network that the operator allows."""
        try:
            parts = urlsplit(endpoint)
            is_plain = parts.port != 0 and parts.username is None and parts.password is None
        except ValueError:
            return False
        if not is_plain or not parts.hostname or parts.fragment:
            return False
        return parts.scheme == "https" or self._is_allowed(parts)

    def _is_allowed(self, parts: SplitResult) -> bool:
        try:
            address = ip_address(parts.hostname or "")
        except ValueError:
            return False
        return any(address in network for network in self._allowed)


def topic_of(collapse_key: str) -> str:
    """Return the topic of a push message: a digest, which tells the push service nothing."""
    return urlsafe_b64encode(sha256(collapse_key.encode()).digest())[:TOPIC_CHARS].decode()


def _is_same(public: str, keys: Mapping[str, object]) -> bool:
    return public.rstrip("=") == keys["public_key"]


def _checked_key(fields: Fields, name: str, expected: str) -> str:
    """Return a key of a subscription in base64url without padding.

    Raises:
        Invalid: The value is not such a key.
    """
    try:
        key = from_base64url(fields.text(name, _KEY, expected))
        if name == "p256dh":
            read_public_key(key)
        elif len(key) != AUTH_BYTES:
            raise ValueError("the secret has another length")
    except ValueError:
        raise fields.refusal(name, f"must be {expected}") from None
    return to_base64url(key)


def _form(notice: PushNotice) -> Mapping[str, object]:
    """Return what the service worker of the page gets."""
    shown = {"title": notice.title, "body": notice.body, "badge": notice.badge}
    return {
        "kind": notice.kind,
        "collapse_key": notice.collapse_key,
        "data": notice.data,
        **{name: value for name, value in shown.items() if value is not None},
    }


def _outcome_of(answer: ServiceAnswer, now: int) -> PushOutcome:
    reason = f"status {answer.status}"
    if 200 <= answer.status < 300:
        return PushOutcome("sent")
    if answer.status in (404, 410):
        return PushOutcome("gone", reason)
    if answer.status in (429, 503):
        return not_sent(reason, answer, now)
    return PushOutcome("refused" if answer.status < 500 else "unknown", reason)


_conforms: type[PushProvider] = WebPushProvider
