# SPDX-License-Identifier: Apache-2.0
"""Builds the keys and items of the inbox table, and lists its partitions for an export.

No name contains a `#`, so keys never collide. Fields that have their default value are left out.
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
from tidings.stores.dynamodb.client.retrying import Item
from tidings.stores.dynamodb.tables import TTL, ttl_seconds

IS_FREE: Final = "attribute_not_exists(#pk)"
IS_THERE: Final = "attribute_exists(#pk)"
NEXT_TO: Final = "~"
"""Sorts after every character of a name: `m~` comes after everything that begins with `m#`."""
IN_RANGE: Final = "#pk = :inbox AND #sk BETWEEN :first AND :last"
"""Condition for the values of `in_range`."""

PROGRESS_KEPT_MS: Final = (limits.KEEP_DAYS_MAX + 1) * limits.DAY_MS
"""How long the delivery progress of a notification is stored after posting: a day longer than any
notification."""
PORTIONS_PER_ITEM: Final = 100
"""Number of delivery jobs that one item records. It is so small that adding a job always costs one
unit."""
MARKS: Final = "w"
"""Sort key of a user's marks. It sorts after the keys of all copies."""
DUE: Final = "due"
"""Attribute with the future TTL of a broadcast. It is copied to the TTL when the next broadcast is
stored."""

_T = TypeVar("_T", bound=msgspec.Struct)


# Structs as items.


def plain(struct: msgspec.Struct, *omitted: str) -> Item:
    """Return the fields of a struct, except those omitted and those with their default value."""
    fields = ((n, default) for n, default in _defaults(type(struct)).items() if n not in omitted)
    values = ((name, getattr(struct, name), default) for name, default in fields)
    return {name: value for name, value, default in values if value != default}


def made(kind: type[_T], item: Item, **others: object) -> _T:
    """Build a struct from an item and from `others`, the fields that the item does not contain."""
    fields = {name: item.get(name, default) for name, default in _defaults(kind).items()}
    return kind(**{**fields, **others})


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the default of each field, or None for a field without a default."""
    return {
        field.name: None if field.default is msgspec.NODEFAULT else field.default
        for field in msgspec.structs.fields(kind)
    }


# A tenant.


def of_tenant(tenant: str, name: str) -> Item:
    """Return a key in the partition of a tenant."""
    return {"pk": f"t#{tenant}", "sk": name}


def settings_key(tenant: str) -> Item:
    """Return the key of the tenant's settings."""
    return of_tenant(tenant, "st#tenant_settings")


def config_key(tenant: str, inbox: str) -> Item:
    """Return the key of an inbox's settings."""
    return of_tenant(tenant, f"si#{inbox}")


# An inbox.


def inbox_partition(tenant: str, inbox: str) -> str:
    """Return the partition of an inbox's bodies, claimed keys and progress."""
    return f"t#{tenant}#i#{inbox}"


def in_range(tenant: str, inbox: str, prefix: str) -> Item:
    """Return the values for the items of an inbox whose sort keys begin with a prefix.

    DynamoDB Local visits the whole partition for `begins_with`, and only these items for a range.
    """
    values = {":first": prefix, ":last": prefix + NEXT_TO}
    return {":inbox": inbox_partition(tenant, inbox), **values}


def body_key(tenant: str, inbox: str, notification_id: str) -> Item:
    """Return the key of the body of a notification for listed users."""
    return {"pk": inbox_partition(tenant, inbox), "sk": f"n#{notification_id}"}


def notification_item(notification: Notification) -> Item:
    """Convert a notification for listed users to its item."""
    return {
        **body_key(notification.tenant, notification.inbox, notification.notification_id),
        **plain(notification, "tenant", "inbox", "notification_id"),
        TTL: ttl_seconds(notification.expires_at),
    }


def to_notification(tenant: str, inbox: str, item: Item) -> Notification:
    """Convert a stored item to a `Notification` for listed users."""
    name = item["sk"].removeprefix("n#")
    return made(Notification, item, tenant=tenant, inbox=inbox, notification_id=name)


def claim_item(tenant: str, inbox: str, key: str, claim: PostKey) -> Item:
    """Build the item of a claimed Idempotency-Key."""
    return {
        "pk": inbox_partition(tenant, inbox),
        "sk": f"k#{key}",
        **plain(claim),
        TTL: ttl_seconds(claim.expires_at),
    }


def portions_of(notification_id: str) -> str:
    """Return the prefix of the sort keys of items that record which delivery jobs of a notification
    are done."""
    return f"p#{notification_id}#"


def portions_key(tenant: str, inbox: str, notification_id: str, number: int) -> Item:
    """Return the key of the item that records that a delivery job is done, with up to 99 others."""
    name = f"{portions_of(notification_id)}{number // PORTIONS_PER_ITEM:04d}"
    return {"pk": inbox_partition(tenant, inbox), "sk": name}


def portions_ttl(notification_id: str) -> int:
    """Return the TTL of a notification's delivery progress."""
    return ttl_seconds(ulid_time(notification_id) + PROGRESS_KEPT_MS)


# The log of an inbox.


def log_partition(tenant: str, inbox: str) -> str:
    """Return the partition of an inbox's log of broadcasts."""
    return f"{inbox_partition(tenant, inbox)}#all"


def log_sort(sequence: int) -> str:
    """Return the sort key of an entry in an inbox's log."""
    return f"n#{sequence:012d}"


def log_key(tenant: str, inbox: str, sequence: int) -> Item:
    """Return the key of a broadcast's item."""
    return {"pk": log_partition(tenant, inbox), "sk": log_sort(sequence)}


def broadcast_item(broadcast: Broadcast) -> Item:
    """Convert a broadcast to its item. The item has no TTL, because DynamoDB must not delete the
    newest broadcast of a log."""
    return {
        **log_key(broadcast.tenant, broadcast.inbox, broadcast.sequence),
        **plain(broadcast, "tenant", "inbox", "sequence"),
        DUE: ttl_seconds(broadcast.expires_at),
    }


def to_broadcast(tenant: str, inbox: str, item: Item) -> Broadcast:
    """Convert a stored item to a `Broadcast`."""
    sequence = int(item["sk"].removeprefix("n#"))
    return made(Broadcast, item, tenant=tenant, inbox=inbox, sequence=sequence)


# A user.


def user_partition(user: UserKey, inbox: str) -> str:
    """Return the partition of a user's copies and read marks in an inbox."""
    return f"t#{tenant_of(user)}#u#{user_id(user)}#i#{inbox}"


def copy_key(user: UserKey, inbox: str, notification_id: str) -> Item:
    """Return the key of the item with a user's copy."""
    return {"pk": user_partition(user, inbox), "sk": f"m#{notification_id}"}


def is_copy(item: Item) -> bool:
    """Return True if an item of a user's partition is a copy."""
    name: str = item["sk"]
    return name.startswith("m#")


def copy_item(user: UserKey, inbox: str, copy: Copy) -> Item:
    """Convert a user's copy to its item."""
    return {
        **copy_key(user, inbox, copy.notification_id),
        **plain(copy, "notification_id"),
        TTL: ttl_seconds(copy.expires_at),
    }


def to_copy(item: Item) -> Copy:
    """Convert a stored item to a `Copy`."""
    return made(Copy, item, notification_id=item["sk"].removeprefix("m#"))


def marks_key(user: UserKey, inbox: str) -> Item:
    """Return the key of a user's read marks in an inbox."""
    return {"pk": user_partition(user, inbox), "sk": MARKS}


class Partitions:
    """Collects the partitions that a scan finds, and returns them in the order of an export
    file."""

    def __init__(self) -> None:
        self._tenants: list[str] = []
        self._inboxes: set[str] = set()
        self._users: list[str] = []
        self._scheduling: set[str] = set()

    def meet(self, item: Item) -> None:
        """Record the partition of an item that the scan has just returned.

        A scan returns all items of one partition in a row, so a user's partition is recorded once.
        """
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
            case ["s", user]:
                self._scheduling.add(user)
            case _:
                pass  # a queue

    def tenants(self) -> list[str]:
        """Return the tenants that have settings, in order."""
        return sorted(self._tenants)

    def inboxes(self) -> list[tuple[str, str]]:
        """Return each inbox with its tenant, in order."""
        return [_pair(name) for name in sorted(self._inboxes)]

    def scheduling(self) -> list[UserKey]:
        """Return the users who have scheduled messages, in order."""
        return [UserKey(user) for user in sorted(self._scheduling)]

    def users(self) -> Iterator[tuple[UserKey, str]]:
        """Yield each user with an inbox, sorted by user and inbox; a pair appears once."""
        self._users.sort()
        for name, _ in groupby(self._users):
            user, inbox = _pair(name)
            yield UserKey(user), inbox


def _pair(name: str) -> tuple[str, str]:
    owner, _, inbox = name.partition("#")
    return owner, inbox
