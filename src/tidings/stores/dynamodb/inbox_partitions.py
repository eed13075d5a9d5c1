# SPDX-License-Identifier: Apache-2.0
"""Which partitions the table of the inbox has, put in the order in which their facts travel."""

from collections.abc import Iterator
from itertools import groupby

from tidings.model.ids import UserKey, user_key
from tidings.stores.dynamodb.trouble import Item


class Partitions:
    """What was met in the table, by names that sort as the facts do: no part has a `#`."""

    def __init__(self) -> None:
        self._tenants: list[str] = []
        self._inboxes: set[str] = set()
        self._users: list[str] = []

    def meet(self, item: Item) -> None:
        """Note where an item stands. Those of one partition come one after the other."""
        match item["pk"].split("#"):
            case ["t", tenant]:
                kind, _, name = item["sk"].partition("#")
                if kind == "st":
                    self._tenants.append(tenant)
                elif kind == "si":
                    self._inboxes.add(f"{tenant}#{name}")
            case ["t", tenant, "i", inbox, *_]:
                self._inboxes.add(f"{tenant}#{inbox}")
            case ["t", tenant, "u", user, "i", inbox]:
                name = f"{user_key(tenant, user)}#{inbox}"
                if self._users[-1:] != [name]:
                    self._users.append(name)
            case _:
                pass  # a queue

    def tenants(self) -> list[str]:
        """The tenants that have settings, in order."""
        return sorted(self._tenants)

    def inboxes(self) -> list[tuple[str, str]]:
        """Each tenant and inbox, in order."""
        return [_pair(name) for name in sorted(self._inboxes)]

    def users(self) -> Iterator[tuple[UserKey, str]]:
        """Each user and inbox, in order."""
        self._users.sort()
        for name, _ in groupby(self._users):
            user, inbox = _pair(name)
            yield UserKey(user), inbox


def _pair(name: str) -> tuple[str, str]:
    one, _, other = name.partition("#")
    return one, other
