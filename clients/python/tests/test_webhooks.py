# SPDX-License-Identifier: Apache-2.0
"""Webhooks are accepted and refused as the public library of the specification does it."""

import hmac
import importlib
import json
from base64 import b64encode
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.services import do_without
from tidings_client import WebhookReceiver, WebhookRefused
from tidings_client.world import SystemWorld

CASES: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "spec" / "webhooks.json").read_text()
)
GENUINE: Final = CASES[0]
PUBLIC: Final = "standardwebhooks"


class At(SystemWorld):
    """A world in which it is always the same time."""

    def __init__(self, now: float) -> None:
        self.now = now

    def wall(self) -> float:
        return self.now


def accepts(case: dict[str, Any]) -> bool:
    receiver = WebhookReceiver(*case["secrets"], world=At(case["now"]))
    try:
        return receiver.verify(case["headers"], case["body"].encode()).type == "message.created"
    except WebhookRefused:
        return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_only_genuine_webhooks_are_accepted(case: dict[str, Any]) -> None:
    assert accepts(case) is case["genuine"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_the_public_library_agrees(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    class Then(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Then":
            return cls.fromtimestamp(case["now"], tz=tz)

    try:
        public = importlib.import_module(f"{PUBLIC}.webhooks")
    except ImportError as error:
        do_without(request.config, PUBLIC, str(error))
    monkeypatch.setattr(public, "datetime", Then)

    def public_accepts(secret: str) -> bool:
        try:
            public.Webhook(secret).verify(case["body"], case["headers"])
        except (public.WebhookVerificationError, ValueError):
            return False
        return True

    assert any(public_accepts(secret) for secret in case["secrets"]) is case["genuine"]


def test_an_event_has_its_fields() -> None:
    receiver = WebhookReceiver(*GENUINE["secrets"], world=At(GENUINE["now"]))
    event = receiver.verify(GENUINE["headers"], GENUINE["body"].encode())
    assert event.webhook_id == GENUINE["headers"]["webhook-id"]
    assert (event.timestamp, event.data) == ("2023-11-14T22:13:20.000Z", {"content": "Grüße ⛵"})


@pytest.mark.parametrize("secrets", [(), ("",), ("whsec_",), ("whsec_ä",), ("whsec_A",)])
def test_a_wrong_secret_is_a_mistake_of_the_receiver(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="secret"):
        WebhookReceiver(*secrets)


@pytest.mark.parametrize(
    "time", ["1700000000x", " 1700000000", "1e9", "-1", "1.5", "١", "1" * 5_000]
)
def test_a_time_is_a_whole_number_of_seconds(time: str) -> None:
    receiver = WebhookReceiver(*GENUINE["secrets"], world=At(GENUINE["now"]))
    with pytest.raises(WebhookRefused):
        receiver.verify({**GENUINE["headers"], "webhook-timestamp": time}, b"{}")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'{"type":"x"}', b'{"type":"x","timestamp":"t","data":[]}', b"\xff"],
)
def test_a_signed_body_that_is_no_event_is_refused(body: bytes) -> None:
    mac = b64encode(hmac.digest(b"secret", b"m.1." + body, "sha256")).decode()
    headers = {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": f"v1,{mac}"}
    receiver = WebhookReceiver("whsec_" + b64encode(b"secret").decode(), world=At(1))
    with pytest.raises(WebhookRefused, match="not an event"):
        receiver.verify(headers, body)
