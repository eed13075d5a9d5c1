# SPDX-License-Identifier: Apache-2.0
"""The command `tidings` as a process in which some waits are short, named in SHORT_WAITS."""

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
"""The variable with the names."""


def quotas() -> None:
    """What was done is added up, and quotas are looked at again, many times a second."""
    defaults = TenantQuotas.__init__.__kwdefaults__ or {}
    assert defaults.keys() == {"add_seconds", "look_seconds"}
    defaults.update(add_seconds=0.1, look_seconds=0.2)
    vars(phone_claims).update(ADD_SECONDS=0.2)


def hello() -> None:
    """Who connects has a second for the first frame."""
    vars(limits).update(HELLO_MS_MAX=limits.SECOND_MS)


def handshakes() -> None:
    """A few of them are more than the process takes."""
    vars(rate_limits).update(_HANDSHAKES=Bucket("handshakes", "", per_second=5, burst=50))


WAITS: Final = {"quotas": quotas, "hello": hello, "handshakes": handshakes}

if __name__ == "__main__":
    for name in os.environ[SHORT_WAITS].split():
        WAITS[name]()
    sys.exit(main())
