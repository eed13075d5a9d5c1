# SPDX-License-Identifier: Apache-2.0
"""Verifies webhooks of Tidings in the service that receives them.

The signatures are those of the Standard Webhooks specification. The header `webhook-signature` has
one or more signatures, separated by spaces; each is the HMAC-SHA256 of id, time and body, in base64
after `v1,`. A webhook is genuine if one signature was made with one of the secrets.
"""

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidings_client.errors import WebhookRefused
from tidings_client.world import SystemWorld, World

TOLERANCE_SECONDS: Final = 300
"""How far the time of a webhook may be from now, so that nobody can replay an old one."""
_PREFIX: Final = "whsec_"
_VERSION: Final = "v1,"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a genuine webhook reports."""

    webhook_id: str
    """The same for every attempt to deliver the webhook: whoever stores it recognises repeats."""
    type: str
    timestamp: str
    data: dict[str, Any]


class _Payload(msgspec.Struct):
    type: str
    timestamp: str
    data: dict[str, Any]


class WebhookReceiver:
    """Verifies webhooks that were signed with one of several secrets.

    While a secret is replaced, give the receiver the new and the old one.
    """

    def __init__(self, *secrets: str, world: World | None = None) -> None:
        """Take the secrets as the server shows them; they begin with `whsec_`.

        Raises:
            ValueError: There is no secret, or one is not base64.
        """
        if not secrets:
            raise ValueError("a receiver needs a secret")
        self._keys = [_key(secret) for secret in secrets]
        self._world = world or SystemWorld()

    def verify(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Return what a webhook reports. Pass the body as it arrived, byte by byte.

        Raises:
            WebhookRefused: The webhook is not genuine, or its time is more than five minutes away.
        """
        given = {name.lower(): value for name, value in headers.items()}
        webhook_id, at = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
        if not webhook_id:
            raise WebhookRefused("the header webhook-id is missing")
        if _SECONDS.fullmatch(at) is None:
            raise WebhookRefused("the header webhook-timestamp is missing or not a number")
        if abs(self._world.wall() - int(at)) > TOLERANCE_SECONDS:
            raise WebhookRefused("the webhook is too old, or one of the clocks is wrong")
        if not self._is_signed(f"{webhook_id}.{at}.".encode() + body, given):
            raise WebhookRefused("no signature is right")
        try:
            payload = msgspec.json.decode(body, type=_Payload)
        except msgspec.DecodeError:
            raise WebhookRefused("the body is not an event") from None
        return WebhookEvent(webhook_id=webhook_id, **msgspec.structs.asdict(payload))

    def _is_signed(self, signed: bytes, headers: Mapping[str, str]) -> bool:
        given = headers.get("webhook-signature", "").split(" ")
        signatures = [one.removeprefix(_VERSION).encode() for one in given if _is_known(one)]
        right = [b64encode(hmac.digest(key, signed, "sha256")) for key in self._keys]
        # All are compared, so that the time does not show which of them is right.
        return True in [hmac.compare_digest(mac, one) for mac in right for one in signatures]


def _is_known(signature: str) -> bool:
    return signature.startswith(_VERSION)


def _key(secret: str) -> bytes:
    text = secret.removeprefix(_PREFIX).rstrip("=")
    try:
        key = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise ValueError("the secret of a webhook is not base64") from None
    if not key:
        raise ValueError("the secret of a webhook is empty")
    return key
