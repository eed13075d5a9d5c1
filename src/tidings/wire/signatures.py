# SPDX-License-Identifier: Apache-2.0
"""Signatures of requests to an operator's webhook, which protect against forgery and replay.

`Tidings-Signature: t=<seconds>,v1=<hex>` is the HMAC-SHA256 of `<seconds>.<body>` under the shared
secret. While a secret is being replaced there is a second `v1` under the previous secret: the
receiver accepts a request if either is right.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

SIGNATURE_HEADER: Final = "Tidings-Signature"
DELIVERY_HEADER: Final = "Tidings-Delivery"


def signature(secrets: Sequence[bytes], seconds: int, body: bytes) -> str:
    """Return the value of the signature header."""
    signed = f"{seconds}.".encode() + body
    macs = [f"v1={hmac.digest(secret, signed, 'sha256').hex()}" for secret in secrets]
    return ",".join([f"t={seconds}", *macs])


def signed_headers(secrets: Sequence[bytes], now: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request with this JSON body, made at `now` (in milliseconds)."""
    return {
        "Content-Type": "application/json",
        SIGNATURE_HEADER: signature(secrets, now // 1_000, body),
    }


def secrets_of(newest: str, previous: str | None) -> list[bytes]:
    """Return the secrets to sign with, from the settings."""
    return [secret.encode() for secret in (newest, previous) if secret is not None]


def delivery_id(body: bytes) -> str:
    """Return the id of a delivery, the same at every attempt: a digest of its body.

    The id needs no signature of its own, and the same batch has the same id from another process.
    """
    return hashlib.sha256(body).hexdigest()
