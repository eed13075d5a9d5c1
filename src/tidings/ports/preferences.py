# SPDX-License-Identifier: Apache-2.0
"""Port for the preferences of users in inboxes.

`Copies.read_state` returns the preferences of a single user, because every reader of an inbox needs
the read marks as well.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidings.model.ids import UserKey
from tidings.model.preferences import Preferences


class PreferenceStore(Protocol):
    """Stores the preferences of each user in each inbox. Every write is durable when it returns,
    and safe to repeat."""

    async def put(self, user: UserKey, inbox: str, preferences: Preferences) -> None:
        """Replace the user's preferences."""
        ...

    async def replace(
        self, user: UserKey, inbox: str, before: Preferences | None, after: Preferences
    ) -> bool:
        """Store `after` if the user's preferences are still those in `before`.

        Returns False if they are not, and stores nothing.
        """
        ...

    async def begin(self, tenant: str, inbox: str) -> bool:
        """Store that some users of the inbox have preferences; return False if there is no such
        inbox.

        The configuration of the inbox then says so, and delivery asks for preferences.
        """
        ...

    async def of(self, users: Sequence[UserKey], inbox: str) -> Mapping[UserKey, Preferences]:
        """Return the preferences of at most 100 users, without users who have none.

        A change of the last second may be missing.
        """
        ...
