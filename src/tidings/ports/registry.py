# SPDX-License-Identifier: Apache-2.0
"""Which gateway holds which connections of which user, where there are several gateways."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tidings.model.ids import UserKey


class RegistryUnavailable(Exception):
    """The registry does not answer. Nothing is lost by it: entries are in the log."""


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a connection is held."""

    gateway: str
    """The gateway's own random name: a process that starts again has another one."""
    connection: str


class Registry(Protocol):
    """Registrations that last only as long as their gateway keeps refreshing them."""

    async def enter(self, user: UserKey, connection: str) -> None:
        """This gateway holds the connection now; whoever looks after this returns finds it.

        Raises:
            RegistryUnavailable: It may or may not be found; the gateway has to compare heads.
        """
        ...

    def leave(self, user: UserKey, connection: str) -> None:
        """It holds the connection no longer. Soon, best effort: what stays behind runs out."""
        ...

    async def refresh(
        self, connections: Sequence[tuple[UserKey, str]]
    ) -> list[tuple[UserKey, str]]:
        """This gateway still holds these connections. All of them are registered afterwards.

        Returns those that were not any more: nobody could find them for a while.

        Raises:
            RegistryUnavailable: Any of them may be registered or not, and may have been or not.
        """
        ...

    async def find(self, users: Iterable[UserKey]) -> Mapping[UserKey, list[Place]]:
        """Where these users are connected, all in one round trip. Those who are not are left out.

        Raises:
            RegistryUnavailable: Nobody knows.
        """
        ...
