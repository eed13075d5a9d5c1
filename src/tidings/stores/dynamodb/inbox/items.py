# SPDX-License-Identifier: Apache-2.0
"""Items of the inbox table: where each thing stands, and as what.

No name has a `#`, so no key can be taken for another. What is as it would be anyway is left out.
"""

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any, Final, TypeVar

import msgspec

from tidings.model import limits
from tidings.model.ids import UserKey, tenant_of, ulid_time, user_id, user_key
from tidings.model.notifications import Broadcast, Copy, Notification
from tidings.ports.inboxes import PostKey
from tidings.stores.dynamodb.client.errors import Item
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

IS_FREE: Final = "attribute_not_exists(#pk)"
IS_THERE: Final = "attribute_exists(#pk)"
NEXT_TO: Final = "~"
"""Sorts behind every character of a name: `m` and this is behind all that begins with `m#`."""

PROGRESS_KEPT_MS: Final = (limits.KEEP_DAYS_MAX + 1) * limits.DAY_MS
"""Since the posting: a day more than the longest that a notification is kept."""
PORTIONS_PER_ITEM: Final = 100
"""So that writing one more number always costs one unit."""
MARKS: Final = "w"
"""What a user's read marks are called; it sorts behind all copies."""
DUE: Final = "due"
"""Of an announcement: what its TTL will be once it is not the last one any more."""

_T = TypeVar("_T", bound=msgspec.Struct)


# Structs as items.


def plain(one: msgspec.Struct, *apart: str) -> Item:
    """The fields of a struct, but those apart and those that say no more than their defaults."""
    fields = _defaults(type(one)).items()
    said = ((name, getattr(one, name), default) for name, default in fields if name not in apart)
    return {name: value for name, value, default in said if value != default}


def made(kind: type[_T], item: Item, **others: object) -> _T:
    """The struct of an item, with what the item leaves to others."""
    fields = {name: item.get(name, default) for name, default in _defaults(kind).items()}
    return kind(**{**fields, **others})


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What each field is if nothing is said."""
    return {
        field.name: None if field.default is msgspec.NODEFAULT else field.default
        for field in msgspec.structs.fields(kind)
    }


# Of a tenant.


def of_tenant(tenant: str, name: str) -> Item:
    """Where something about a tenant stands."""
    return {"pk": f"t#{tenant}", "sk": name}


def settings_key(tenant: str) -> Item:
    """Where the tenant's settings stand."""
    return of_tenant(tenant, "st#tenant_settings")


def config_key(tenant: str, inbox: str) -> Item:
    """Where an inbox stands."""
    return of_tenant(tenant, f"si#{inbox}")


# Of an inbox.


def inbox_partition(tenant: str, inbox: str) -> str:
    """Where bodies, claimed keys and progress stand."""
    return f"t#{tenant}#i#{inbox}"


def body_key(tenant: str, inbox: str, notification_id: str) -> Item:
    """Where the body of a notification for listed users stands."""
    return {"pk": inbox_partition(tenant, inbox), "sk": f"n#{notification_id}"}


def notification_item(one: Notification) -> Item:
    """A notification for listed users."""
    return {
        **body_key(one.tenant, one.inbox, one.notification_id),
        **plain(one, "tenant", "inbox", "notification_id"),
        TTL: ttl_seconds(one.expires_at),
    }


def to_notification(tenant: str, inbox: str, item: Item) -> Notification:
    """A notification for listed users."""
    name = item["sk"].removeprefix("n#")
    return made(Notification, item, tenant=tenant, inbox=inbox, notification_id=name)


def claim_item(tenant: str, inbox: str, key: str, claim: PostKey) -> Item:
    """A claimed Idempotency-Key."""
    return {
        "pk": inbox_partition(tenant, inbox),
        "sk": f"k#{key}",
        **plain(claim),
        TTL: ttl_seconds(claim.expires_at),
    }


def portions_of(notification_id: str) -> str:
    """What the names of all items with its finished portions begin with."""
    return f"p#{notification_id}#"


def portions_key(tenant: str, inbox: str, notification_id: str, number: int) -> Item:
    """Where it stands that a portion is done, with up to 99 others."""
    name = f"{portions_of(notification_id)}{number // PORTIONS_PER_ITEM:04d}"
    return {"pk": inbox_partition(tenant, inbox), "sk": name}


def portions_ttl(notification_id: str) -> int:
    """When nobody asks any more how far it is."""
    return ttl_seconds(ulid_time(notification_id) + PROGRESS_KEPT_MS)


# The log of an inbox.


def log_partition(tenant: str, inbox: str) -> str:
    """Where the log of an inbox stands."""
    return f"{inbox_partition(tenant, inbox)}#all"


def log_sort(sequence: int) -> str:
    """Where in the log an entry stands."""
    return f"n#{sequence:012d}"


def log_key(tenant: str, inbox: str, sequence: int) -> Item:
    """Where an announcement stands."""
    return {"pk": log_partition(tenant, inbox), "sk": log_sort(sequence)}


def announcement_item(one: Broadcast) -> Item:
    """An announcement, as long as it is the last one: the engine must not delete that."""
    return {
        **log_key(one.tenant, one.inbox, one.sequence),
        **plain(one, "tenant", "inbox", "sequence"),
        DUE: ttl_seconds(one.expires_at),
    }


def to_announcement(tenant: str, inbox: str, item: Item) -> Broadcast:
    """An announcement."""
    sequence = int(item["sk"].removeprefix("n#"))
    return made(Broadcast, item, tenant=tenant, inbox=inbox, sequence=sequence)


# Of a user.


def user_partition(user: UserKey, inbox: str) -> str:
    """Where a user's copies and read marks stand."""
    return f"t#{tenant_of(user)}#u#{user_id(user)}#i#{inbox}"


def copy_key(user: UserKey, inbox: str, notification_id: str) -> Item:
    """Where a user's copy stands."""
    return {"pk": user_partition(user, inbox), "sk": f"m#{notification_id}"}


def copy_item(user: UserKey, inbox: str, copy: Copy) -> Item:
    """A user's copy."""
    return {
        **copy_key(user, inbox, copy.notification_id),
        **plain(copy, "notification_id"),
        TTL: ttl_seconds(copy.expires_at),
    }


def to_copy(item: Item) -> Copy:
    """A user's copy."""
    return made(Copy, item, notification_id=item["sk"].removeprefix("m#"))


def marks_key(user: UserKey, inbox: str) -> Item:
    """Where it stands what a user has read."""
    return {"pk": user_partition(user, inbox), "sk": MARKS}


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
