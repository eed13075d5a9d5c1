# SPDX-License-Identifier: Apache-2.0
"""What is stored for push: the devices that registered, and the settings of tenants."""

from hashlib import sha256
from typing import Final, Literal

import msgspec

from tidings.model.ids import UserKey

DEVICES_MAX: Final = 20
"""Number of devices of a user that can be registered for push."""

ContentRule = Literal["none", "preview"]
"""Whether a notice shows who wrote what, or only that there is something new."""


class PushRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A device that gets push notices.

    The target, which is the token or the subscription, is stored encrypted. Anybody who has it
    could send notices to the device.
    """

    user_id: UserKey
    device: str
    provider: str
    app: str | None = None
    box: str
    """The encrypted target."""
    digest: str
    """Digest of the target. A target belongs to one device, which is the last that registered
    it."""
    session_id: str | None = None
    """The session that registered the device and with which the registration ends; None if the
    token of the user belongs to no session."""
    created_at: int


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The push settings of a tenant. The credentials of the providers are stored encrypted."""

    tenant: str
    content: ContentRule = "none"
    providers: tuple[str, ...] = ()
    box: str = ""
    """The encrypted credentials of all providers."""
    updated_at: int


def target_digest(provider: str, address: str) -> str:
    """Return the digest by which a target is recognised; it does not reveal the target."""
    return sha256(f"{provider}\0{address}".encode()).hexdigest()
