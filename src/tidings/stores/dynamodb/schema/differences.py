# SPDX-License-Identifier: Apache-2.0
"""What is different between a declared table and the one an account has. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tidings.stores.dynamodb.schema.requests import key_schema
from tidings.stores.dynamodb.tables import Index, Provisioned, Range, Table

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
        "protection_off",
    }
)
"""What `apply` puts right. The rest would lose data, or what reads it: that is for a person."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as declared."""

    table: Table
    kind: Kind
    says: str
    """For the operator: what is there, and what should be."""
    index: Index | None = None

    @property
    def curable(self) -> bool:
        """Whether `apply` can put it right."""
        return self.kind in CURABLE


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as an endpoint described it."""

    description: Mapping[str, Any]
    """What DescribeTable says."""
    ttl: str | None
    """The attribute items expire by; None: they do not."""
    pitr: bool | None
    """None: the endpoint does not know point-in-time recovery."""


def differences(table: Table, found: DescribedTable | None) -> list[Difference]:
    """Everything about the table that is not as declared."""
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
        # It would limit each chat to 10 GB, and it can never be taken away.
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
    """What is wrong with a capacity. Within the range it is the scaling's business."""
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
        one = present.pop(index.name, None)
        if one is None:
            yield Difference(table, "index_missing", f"it has no index {index.name}", index)
            continue
        if one["KeySchema"] != key_schema(index.partition, index.sort):
            yield Difference(table, "index_wrong", f"index {index.name} has another key", index)
        projection = one["Projection"]["ProjectionType"]
        if projection != index.projection:
            says = f"index {index.name} projects {projection} and should {index.projection}"
            yield Difference(table, "index_wrong", says, index)
        if table.capacity and (wrong := _outside_of_index(table.capacity, index, one, there)):
            yield Difference(table, "capacity_wrong", wrong, index)
    for name in present:
        yield Difference(table, "index_unknown", f"it has an index {name} that nothing uses")


def _outside_of_index(
    capacity: Provisioned, index: Index, one: Mapping[str, Any], there: Mapping[str, Any]
) -> str | None:
    if there.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        return None  # told already: the mode of the table is wrong
    says = _outside(capacity, one["ProvisionedThroughput"])
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
    if found.pitr is False and table.pitr:
        yield Difference(table, "pitr_off", "point-in-time recovery is off")
    if found.pitr and not table.pitr:
        says = "point-in-time recovery is on: what is destroyed here has to stay destroyed"
        yield Difference(table, "pitr_on", says)
    if not found.description.get("DeletionProtectionEnabled", False):
        yield Difference(table, "protection_off", "it is not protected against deletion")
