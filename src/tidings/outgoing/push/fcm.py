# SPDX-License-Identifier: Apache-2.0
"""Provider for apps on Android and others: Firebase Cloud Messaging, its HTTP v1 API."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tidings.outgoing.push.answers import NoAnswer, ServiceAnswer, ServicePosts, not_sent
from tidings.outgoing.push.fcm_tokens import FCM_TOKEN_URL, FcmTokens, ServiceAccount
from tidings.outgoing.push.fields import Fields
from tidings.outgoing.push.loading import require
from tidings.outgoing.push.texts import alert_of, aps_of, facts, fitting
from tidings.ports.push import (
    ProviderName,
    PushCredentials,
    PushNotice,
    PushOutcome,
    PushProvider,
    PushTarget,
)
from tidings.ports.world import Clock

FCM_URL: Final = "https://fcm.googleapis.com"
MESSAGE_BYTES_MAX: Final = 4_096
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 4_096
_PEM: Final = re.compile(
    r"\s*-----BEGIN PRIVATE KEY-----[A-Za-z0-9+/=\s]{1,8000}-----END PRIVATE KEY-----\s*"
)
_PROJECT: Final = re.compile(r"[a-z0-9:.-]{1,100}")
_EMAIL: Final = re.compile(r"[!-~]{1,200}@[!-~]{1,200}")
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_:.%-]{1,4000}")
_APP: Final = re.compile(r"[A-Za-z0-9:._-]{1,155}")
_ERROR: Final = re.compile(rb'"errorCode"\s*:\s*"([A-Z_]{1,40})"')


class FcmProvider:
    """Sends each notice to FCM in the name of the tenant's project."""

    name: ProviderName = "fcm"
    can_clear = True

    def __init__(
        self,
        posts: ServicePosts,
        clock: Clock,
        *,
        url: str = FCM_URL,
        token_url: str = FCM_TOKEN_URL,
    ) -> None:
        self._posts = posts
        self._clock = clock
        self._url = url.rstrip("/")
        self._tokens = FcmTokens(posts, clock, token_url)

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        require("aiohttp")
        fields = Fields("/fcm", given, ("service_account",))
        account = Fields("/fcm/service_account", fields.mapping("service_account"))
        key_id = account.text("private_key_id", _KEY_ID, "the id of a key")
        old = None if stored is None else _account(stored)
        kept = old.private_key if old is not None and old.private_key_id == key_id else None
        checked = ServiceAccount(
            account.text("project_id", _PROJECT, "the id of a project"),
            account.text("client_email", _EMAIL, "the address of a service account"),
            key_id,
            _private_key(account, kept),
        )
        return {"service_account": msgspec.to_builtins(checked)}

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        account = msgspec.to_builtins(_account(credentials))
        return {
            "service_account": {
                name: value for name, value in account.items() if name != "private_key"
            }
        }

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {}

    def accept_target(self, given: Mapping[str, object]) -> PushTarget:
        fields = Fields("", given, ("provider", "token", "app"))
        return PushTarget(
            provider=self.name,
            address=fields.text("token", _TOKEN, "a registration token"),
            app=fields.optional_text("app", _APP, "the id of an app"),
        )

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        account = _account(credentials)
        # The token of the device comes on top of what FCM limits.
        text = fitting(
            notice,
            lambda shorter: _form(shorter, target.address),
            MESSAGE_BYTES_MAX + len(target.address),
        )
        if text is None:
            return PushOutcome("refused", "too large")
        try:
            token = await self._tokens.token(account)
            answer = await self._posts.post(
                f"{self._url}/v1/projects/{account.project_id}/messages:send",
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                text,
            )
        except NoAnswer as failure:
            return failure.outcome
        if answer.status == 401:
            self._tokens.drop(account, token)
        return _outcome_of(answer, self._clock.now())


def _account(credentials: PushCredentials) -> ServiceAccount:
    return msgspec.convert(credentials["service_account"], ServiceAccount)


def _private_key(fields: Fields, kept: str | None) -> str:
    """Return the text of a private key; if none is given, return the one that is kept.

    Raises:
        Invalid: The key is not that of a service account.
    """
    expected = "a private key as in the file of a service account"
    pem = fields.optional_text("private_key", _PEM, expected) or kept or ""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, UnsupportedAlgorithm):
        raise fields.refusal("private_key", f"must be {expected}") from None
    if not isinstance(key, RSAPrivateKey) or not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        raise fields.refusal("private_key", f"must be {expected}")
    return pem


def _form(notice: PushNotice, token: str) -> Mapping[str, object]:
    """Return the request. Without content, an app on Android decides itself what it shows."""
    android: dict[str, object] = {
        "collapse_key": notice.collapse_key,
        "priority": "NORMAL" if notice.kind == "clear" else "HIGH",
        "ttl": f"{notice.ttl_seconds}s",
    }
    message: dict[str, object] = {
        "token": token,
        "data": facts(notice),
        "android": android,
        "apns": _for_apple(notice),
    }
    if notice.title is not None or notice.body is not None:
        message["notification"] = alert_of(notice)
        tray: dict[str, object] = {"tag": notice.collapse_key}
        if notice.badge is not None:
            tray["notification_count"] = notice.badge
        android["notification"] = tray
    return {"message": message}


def _for_apple(notice: PushNotice) -> Mapping[str, object]:
    """Return what FCM gives to APNs, if the token is that of a device of Apple."""
    priority = "5" if notice.kind == "clear" else "10"
    return {
        "headers": {"apns-collapse-id": notice.collapse_key, "apns-priority": priority},
        "payload": {"aps": aps_of(notice)},
    }


def _outcome_of(answer: ServiceAnswer, now: int) -> PushOutcome:
    found = _ERROR.search(answer.body)
    reason = found[1].decode() if found else f"status {answer.status}"
    if answer.status == 200:
        return PushOutcome("sent")
    if reason == "UNREGISTERED":
        return PushOutcome("gone", reason)  # another 404 means that there is no such project
    if answer.status in (401, 429, 503):
        return not_sent(reason, answer, now)
    return PushOutcome("refused" if answer.status < 500 else "unknown", reason)


_conforms: type[PushProvider] = FcmProvider
