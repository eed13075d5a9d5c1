# SPDX-License-Identifier: Apache-2.0
"""Compares a declared table with the table in an account; does no I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidings.stores.dynamodb.schema.requests import key_schema
from tidings.stores.dynamodb.tables import PITR_DAYS, Index, Provisioned, Range, Table

Kind = Literal[
    "table_missing",
    "key_wrong",
    "mode_wrong",
    "capacity_wrong",
    "index_missing",
    "index_wrong",
    "index_unknown",
    "ttl_off",
    "ttl_wrong",
    "stream_off",
    "stream_wrong",
    "pitr_off",
    "pitr_short",
    "pitr_on",
    "protection_off",
]

CURABLE: Final[frozenset[Kind]] = frozenset(
    {
        "table_missing",
        "mode_wrong",
        "capacity_wrong",
        "index_missing",
        "ttl_off",
        "stream_off",
        "pitr_off",
        "pitr_short",
        "protection_off",
    }
)
"""Differences that `apply` fixes. Fixing the others could lose data, so a person must decide."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One property of a table that is not as declared."""

    table: Table
    kind: Kind
    says: str
    """Text for the operator, which describes the actual and the declared state."""
    index: Index | None = None

    def named(self, prefix: str) -> str:
        """Return the name of the table in a deployment with this prefix."""
        return prefix + self.table.name

    @property
    def curable(self) -> bool:
        """Whether `apply` can fix the difference."""
        return self.kind in CURABLE


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as the endpoint described it."""

    description: Mapping[str, Any]
    """Answer of DescribeTable."""
    ttl: str | None
    """Attribute with the expiry of items; None if items do not expire."""
    pitr: int | None
    """Days that point-in-time recovery reaches back, 0 if it is off; None if the endpoint does not
    support it."""


def differences(table: Table, found: DescribedTable | None) -> list[Difference]:
    """Return every property of the table that is not as declared."""
    if found is None:
        return [Difference(table, "table_missing", "there is no such table")]
    return [
        *_in_keys(table, found.description),
        *_in_capacity(table, found.description),
        *_in_indexes(table, found.description),
        *_in_stream(table, found.description),
        *_in_lifetime(table, found),
    ]


def _in_keys(table: Table, there: Mapping[str, Any]) -> Iterator[Difference]:
    types = {a["AttributeName"]: a["AttributeType"] for a in there["AttributeDefinitions"]}
    wanted = [key for key in (table.partition, table.sort) if key is not None]
    if there["KeySchema"] != key_schema(table.partition, table.sort) or any(
        types[key.name] != key.type for key in wanted
    ):
        is_key = ", ".join(
            f"{key['AttributeName']} ({types[key['AttributeName']]})" for key in there["KeySchema"]
        )
        should = ", ".join(f"{key.name} ({key.type})" for key in wanted)
        yield Difference(table, "key_wrong", f"its key is {is_key} and should be {should}")
    for index in there.get("LocalSecondaryIndexes", ()):
        # A local index would limit each chat to 10 GB, and it cannot be removed.
        yield Difference(table, "index_unknown", f"it has a local index {index['IndexName']}")


def _in_capacity(table: Table, there: Mapping[str, Any]) -> Iterator[Difference]:
    mode = there.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    should = "PROVISIONED" if table.capacity else "PAY_PER_REQUEST"
    if mode != should:
        yield Difference(table, "mode_wrong", f"its mode is {mode} and should be {should}")
    elif table.capacity is not None:
        if says := _outside(table.capacity, there["ProvisionedThroughput"]):
            yield Difference(table, "capacity_wrong", says)


def _outside(capacity: Provisioned, there: Mapping[str, Any]) -> str | None:
    """Describe the capacities outside their range; return None if there are none.

    Any capacity within the range is right, because scaling chooses it.
    """
    wrong = [
        f"{what} capacity is {units} and should be {allowed.least} to {allowed.most}"
        for what, allowed, units in (
            ("read", capacity.read, there["ReadCapacityUnits"]),
            ("write", capacity.write, there["WriteCapacityUnits"]),
        )
        if not _allows(allowed, units)
    ]
    return ", ".join(wrong) or None


def _allows(allowed: Range, units: int) -> bool:
    return allowed.least <= units <= allowed.most


def _in_indexes(table: Table, there: Mapping[str, Any]) -> Iterator[Difference]:
    present = {
        index["IndexName"]: index
        for index in there.get("GlobalSecondaryIndexes", ())
        if index.get("IndexStatus") != "DELETING"
    }
    for index in table.indexes:
        actual = present.pop(index.name, None)
        if actual is None:
            yield Difference(table, "index_missing", f"it has no index {index.name}", index)
            continue
        if actual["KeySchema"] != key_schema(index.partition, index.sort):
            yield Difference(table, "index_wrong", f"index {index.name} has another key", index)
        projection = actual["Projection"]["ProjectionType"]
        if projection != index.projection:
            says = f"index {index.name} projects {projection} and should project {index.projection}"
            yield Difference(table, "index_wrong", says, index)
        if table.capacity and (wrong := _outside_of_index(table.capacity, index, actual, there)):
            yield Difference(table, "capacity_wrong", wrong, index)
    for name in present:
        yield Difference(table, "index_unknown", f"it has an index {name} that nothing uses")


def _outside_of_index(
    capacity: Provisioned, index: Index, actual: Mapping[str, Any], there: Mapping[str, Any]
) -> str | None:
    if there.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        return None  # already reported: the mode of the table is wrong
    says = _outside(capacity, actual["ProvisionedThroughput"])
    return says and f"index {index.name}: {says}"


def _in_stream(table: Table, there: Mapping[str, Any]) -> Iterator[Difference]:
    stream = there.get("StreamSpecification", {})
    view = stream.get("StreamViewType") if stream.get("StreamEnabled") else None
    if table.stream is None:
        if view is not None:
            yield Difference(table, "stream_wrong", f"its stream ({view}) is on: it should be off")
    elif view is None:
        yield Difference(table, "stream_off", f"its stream ({table.stream}) is off")
    elif view != table.stream:
        says = f"its stream shows {view} and should show {table.stream}"
        yield Difference(table, "stream_wrong", says)


def _in_lifetime(table: Table, found: DescribedTable) -> Iterator[Difference]:
    if table.ttl != found.ttl:
        if found.ttl is None:
            yield Difference(table, "ttl_off", f"TTL is off: it should be on by {table.ttl}")
        else:
            should = f"on by {table.ttl}" if table.ttl else "off"
            says = f"TTL is on by {found.ttl}: it should be {should}"
            yield Difference(table, "ttl_wrong", says)
    if found.pitr is not None:
        yield from _in_recovery(table, found.pitr)
    if not found.description.get("DeletionProtectionEnabled", False):
        yield Difference(table, "protection_off", "it is not protected against deletion")


def _in_recovery(table: Table, days: int) -> Iterator[Difference]:
    if table.pitr and not days:
        yield Difference(table, "pitr_off", "point-in-time recovery is off")
    elif table.pitr and days != PITR_DAYS:
        says = f"point-in-time recovery reaches back {days} days and should reach back {PITR_DAYS}"
        yield Difference(table, "pitr_short", says)
    elif days and not table.pitr:
        says = "point-in-time recovery is on and should be off: destroyed keys must stay destroyed"
        yield Difference(table, "pitr_on", says)
