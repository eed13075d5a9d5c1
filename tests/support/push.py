# SPDX-License-Identifier: Apache-2.0
"""Push services in memory, which answer by the token of a device."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from tidings.actions.push.verbs import PushVerbs
from tidings.assembly.push import LazyProviders
from tidings.model.refusals import Invalid
from tidings.ports.push import (
    ProviderName,
    PushCredentials,
    PushNotice,
    PushOutcome,
    PushProvider,
    PushTarget,
)

_OUTCOMES = {
    "gone": PushOutcome("gone"),
    "unclear": PushOutcome("unknown", "no answer"),
    "refused": PushOutcome("refused", "too large"),
}


class FakePush:
    """Keeps what was sent. A token `busy` refuses the first attempt of each notice; the tokens
    `gone`, `unclear` and `refused` answer what they say."""

    def __init__(self) -> None:
        self.sent: list[tuple[PushTarget, PushNotice]] = []
        self.attempts: Counter[str] = Counter()
        self.after_busy: Callable[[], Awaitable[object]] | None = None
        """Called after each refusal of the token `busy`, before the next attempt."""

    def answer(self, target: PushTarget, notice: PushNotice) -> PushOutcome:
        token = target.address
        self.attempts[token] += 1
        if token in _OUTCOMES:
            return _OUTCOMES[token]
        if token == "busy" and self.attempts[token] % 2:
            return PushOutcome("not_sent", "too many", retry_after_ms=1)
        self.sent.append((target, notice))
        return PushOutcome("sent")


class FakeProvider:
    """A provider that keeps notices instead of sending them."""

    def __init__(self, name: ProviderName, fake: FakePush) -> None:
        self.name = name
        self.can_clear = name != "webpush"
        self._fake = fake

    def accept_credentials(
        self, given: PushCredentials, stored: PushCredentials | None
    ) -> PushCredentials:
        return given

    def shown(self, credentials: PushCredentials) -> Mapping[str, object]:
        return {}

    def public(self, credentials: PushCredentials) -> Mapping[str, object]:
        if self.name != "webpush":
            return {}
        return {"vapid_public_key": f"public {credentials['key']}"}

    def accept_target(self, given: Mapping[str, Any]) -> PushTarget:
        if "token" not in given:
            raise Invalid("token: is missing", "/token")
        app = cast(str | None, given.get("app"))
        keys = cast(tuple[str, str] | None, tuple(given.get("subscription", {}).values()) or None)
        return PushTarget(provider=self.name, address=str(given["token"]), app=app, keys=keys)

    async def send(
        self, credentials: PushCredentials, target: PushTarget, notice: PushNotice
    ) -> PushOutcome:
        outcome = self._fake.answer(target, notice)
        if outcome.kind == "not_sent" and self._fake.after_busy is not None:
            await self._fake.after_busy()
        return outcome


_conforms: type[PushProvider] = FakeProvider


def with_fake_providers(push: PushVerbs) -> FakePush:
    """Replace the push services for devices, and keep the webhook."""
    fake = FakePush()
    providers = push.send.providers
    assert isinstance(providers, LazyProviders)
    names: tuple[ProviderName, ...] = ("webpush", "fcm", "apns")
    for name in names:
        providers.replace(FakeProvider(name, fake))
    return fake
