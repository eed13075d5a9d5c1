# SPDX-License-Identifier: Apache-2.0
"""What a tenant's settings say about logging in by phone."""

from collections.abc import Mapping

import msgspec

from tidings.model.refusals import Invalid


class LoginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`login` in a tenant's settings. Both are off until the tenant switches them on."""

    phone: bool = False
    """Whether users of the tenant log in by phone at all."""
    register: bool = False
    """Whether a number that is nobody's becomes a new user."""


def login_settings_in(settings: Mapping[str, object]) -> LoginSettings:
    """The part of a tenant's settings that is about logging in.

    Raises:
        Invalid: `login` is there and makes no sense.
    """
    try:
        return msgspec.convert(settings.get("login", {}), LoginSettings)
    except msgspec.ValidationError as error:
        raise Invalid(f"login: {error}", "/login") from None
