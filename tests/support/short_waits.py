# SPDX-License-Identifier: Apache-2.0
"""Runs the command `tidings` with shorter waits; the variable SHORT_WAITS names them."""

import os
import sys
from typing import Final

from tidings.actions import rate_limits
from tidings.actions.identity.quotas import TenantQuotas
from tidings.cli import main
from tidings.model import limits
from tidings.ports.sessions import Bucket
from tidings.stores.dynamodb.identity import phone_claims

SHORT_WAITS: Final = "SHORT_WAITS"
"""Environment variable with the names of the waits, separated by spaces."""


def quotas() -> None:
    """Make the server add up counts and read quotas several times a second."""
    defaults = TenantQuotas.__init__.__kwdefaults__ or {}
    assert defaults.keys() == {"add_seconds", "look_seconds"}
    defaults.update(add_seconds=0.1, look_seconds=0.2)
    vars(phone_claims).update(ADD_SECONDS=0.2)


def hello() -> None:
    """Give a new connection one second for its first frame."""
    vars(limits).update(HELLO_MS_MAX=limits.SECOND_MS)


def handshakes() -> None:
    """Make the server refuse handshakes after the first 50."""
    vars(rate_limits).update(_HANDSHAKES=Bucket("handshakes", "", per_second=5, burst=50))


WAITS: Final = {"quotas": quotas, "hello": hello, "handshakes": handshakes}

if __name__ == "__main__":
    for name in os.environ[SHORT_WAITS].split():
        WAITS[name]()
    sys.exit(main())
