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


class Refreshed(msgspec.Struct, frozen=True):
    """What became of registrations that were refreshed."""

    missing: list[tuple[UserKey, str]]
    """These were not registered any more: nobody could find them for a while. Now they are."""
    surplus: list[tuple[UserKey, str]]
    """Neither were these, and they are not now: their users have as many others as they may."""


class Registry(Protocol):
    """Registrations that last only as long as their gateway keeps refreshing them.

    No user has more than `limits.USER_CONNECTIONS_MAX` of them, over all gateways.
    """

    async def enter(self, user: UserKey, connection: str) -> bool:
        """This gateway holds the connection now; whoever looks after this returns finds it.

        False, and nothing is registered, if the user has as many connections as one may.

        Raises:
            RegistryUnavailable: It may or may not be found; the gateway has to compare heads.
        """
        ...

    def leave(self, user: UserKey, connection: str) -> None:
        """It holds the connection no longer. Soon, best effort: what stays behind runs out."""
        ...

    async def refresh(self, connections: Sequence[tuple[UserKey, str]]) -> Refreshed:
        """This gateway still holds these connections: all are registered afterwards, or surplus.

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
