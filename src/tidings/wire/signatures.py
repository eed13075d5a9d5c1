# SPDX-License-Identifier: Apache-2.0
"""How requests to an operator's webhook are signed, so that neither forged nor old ones count.

`Tidings-Signature: t=<seconds>,v1=<hex>` is the HMAC-SHA256 of `<seconds>.<body>` under the shared
secret. Whoever receives a request compares both.
"""

import hmac
from typing import Final

SIGNATURE_HEADER: Final = "Tidings-Signature"


def signature(secret: bytes, seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    mac = hmac.digest(secret, f"{seconds}.".encode() + body, "sha256").hex()
    return f"t={seconds},v1={mac}"


def signed_headers(secret: bytes, now: int, body: bytes) -> dict[str, str]:
    """The headers of a request with this JSON body, made now (in milliseconds)."""
    return {
        "Content-Type": "application/json",
        SIGNATURE_HEADER: signature(secret, now // 1_000, body),
    }
