# SPDX-License-Identifier: Apache-2.0
"""The users of most tests."""

from typing import Final

from tidings.model.ids import UserKey, user_key

ANN: Final = user_key("acme", "ann")
BOB: Final = user_key("acme", "bob")
CAT: Final = user_key("acme", "cat")
DAN: Final = user_key("acme", "dan")


def some_users(count: int) -> list[UserKey]:
    """Return this many different users."""
    return [user_key("acme", f"u{index}") for index in range(count)]
