# SPDX-License-Identifier: Apache-2.0
"""Provider for apps on Apple's devices: APNs, with a signing key of the tenant.

Apple wants few connections that stay open. Each tenant has its own, so that none waits for others.
"""

import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec

from tidings.caches import LruCache
from tidings.model import limits
from tidings.model.addresses import Networks
from tidings.outgoing.push.answers import REQUEST_SECONDS_MAX, NoAnswer, ServiceAnswer, not_sent
from tidings.outgoing.push.apns_credentials import (
    ApnsCredentials,
    ApnsTokens,
    read_apns_credentials,
)
from tidings.outgoing.push.fields import Fields
from tidings.outgoing.push.loading import load, require
from tidings.outgoing.push.texts import aps_of, facts, fitting
from tidings.ports.push import (
    ProviderName,
    PushCredentials,
    PushNotice,
    PushOutcome,
    PushProvider,
    PushTarget,
)
from tidings.ports.world import Clock

if TYPE_CHECKING:
    from tidings.outgoing.push.http2_links import Http2Link

APNS_URL: Final = "https://api.push.apple.com"
APNS_SANDBOX_URL: Final = "https://api.sandbox.push.apple.com"
PAYLOAD_BYTES_MAX: Final = 4_096
LINKS_MAX: Final = 1_000
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,400}")
_APP: Final = re.compile(r"[A-Za-z0-9._-]{1,155}")
_REASON: Final = re.compile(rb'"reason"\s*:\s*"([A-Za-z]{1,40})"')
_EXPIRED: Final = "ExpiredProviderToken"


class ApnsProvider:
    """Sends each notice over the connection of its tenant to APNs."""

    name: ProviderName = "apns"
    can_clear = True

    def __init__(
        self,
        clock: Clock,
        allowed: Networks,
        *,
        url: str = APNS_URL,
        sandbox_url: str = APNS_SANDBOX_URL,
        tls: ssl.SSLContext | None = None,
        seconds_max: float = REQUEST_SECONDS_MAX,
    ) -> None:
        self._clock = clock
        self._allowed = allowed
        self._tls = tls
        self._seconds_max = seconds_max
        self._urls = {False: url, True: sandbox_url}
        self._links: LruCache[ApnsCredentials, Http2Link] = LruCache(LINKS_MAX)
        self._opened: WeakSet[Http2Link] = WeakSet()
        """All links that are in use; some may no longer be in the cache."""
        self._tokens = ApnsTokens()

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        require("h2")
        accepted: PushCredentials = msgspec.to_builtins(read_apns_credentials(given, stored))
        return accepted

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {name: value for name, value in credentials.items() if name != "private_key"}

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {}

    def accept_target(self, given: Mapping[str, object]) -> PushTarget:
        fields = Fields("", given, ("provider", "token", "app"))
        return PushTarget(
            provider=self.name,
            address=fields.text("token", _TOKEN, "a device token"),
            app=fields.optional_text("app", _APP, "the bundle id of an app"),
        )

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        text = fitting(notice, _form, PAYLOAD_BYTES_MAX)
        if text is None:
            return PushOutcome("refused", "PayloadTooLarge")
        given = msgspec.convert(credentials, ApnsCredentials)
        now = self._clock.now()
        try:
            link = await self._link(given)
            headers = self._headers(given, target, notice, now)
            answer = await link.post(headers, text, self._seconds_max)
        except NoAnswer as failure:
            return failure.outcome
        outcome = _outcome_of(answer, now)
        if outcome.reason == _EXPIRED:
            self._tokens.drop(given, now // limits.SECOND_MS)
        return outcome

    async def close(self) -> None:
        """Close the connections after the requests under way."""
        for link in tuple(self._opened):
            link.close()

    async def _link(self, credentials: ApnsCredentials) -> "Http2Link":
        if (link := self._links.get(credentials)) is None:
            await load("tidings.outgoing.push.http2_links")
            from tidings.outgoing.push.http2_links import Http2Link

            link = self._links.get(credentials)  # another request may have made it meanwhile
            if link is None:
                link = Http2Link(self._urls[credentials.sandbox], self._allowed, self._tls)
                self._links.put(credentials, link)
                self._opened.add(link)
        return link

    def _headers(
        self, credentials: ApnsCredentials, target: PushTarget, notice: PushNotice, now: int
    ) -> list[tuple[str, str]]:
        seconds = now // limits.SECOND_MS
        is_shown = notice.kind != "clear"
        return [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", urlsplit(self._urls[credentials.sandbox]).netloc),
            (":path", f"/3/device/{target.address}"),
            ("authorization", f"bearer {self._tokens.token(credentials, seconds)}"),
            ("apns-topic", _topic(credentials, target)),
            ("apns-push-type", "background" if _is_silent(notice) else "alert"),
            ("apns-priority", "10" if is_shown else "5"),
            ("apns-expiration", str(seconds + notice.ttl_seconds)),
            ("apns-collapse-id", notice.collapse_key),
        ]


def _topic(credentials: ApnsCredentials, target: PushTarget) -> str:
    """Return the bundle id of the app that registered; by default, that of the tenant."""
    return target.app if target.app is not None and "." in target.app else credentials.topic


def _is_silent(notice: PushNotice) -> bool:
    """Return True if nothing of a notice is seen, not even a number."""
    return notice.kind == "clear" and notice.badge is None


def _form(notice: PushNotice) -> Mapping[str, object]:
    return {**facts(notice), "aps": aps_of(notice)}


def _outcome_of(answer: ServiceAnswer, now: int) -> PushOutcome:
    found = _REASON.search(answer.body)
    reason = found[1].decode() if found else f"status {answer.status}"
    if answer.status == 200:
        return PushOutcome("sent")
    if answer.status == 410:
        return PushOutcome("gone", reason)
    if answer.status in (429, 503) or reason == _EXPIRED:
        return not_sent(reason, answer, now)
    return PushOutcome("refused" if answer.status < 500 else "unknown", reason)


_conforms: type[PushProvider] = ApnsProvider
