# SPDX-License-Identifier: Apache-2.0
"""Capacity plan for a load: units, bytes and dollars of each table, and the number of processes."""

import math
from dataclasses import dataclass
from typing import Final

from tidings.stores.dynamodb.tables import TABLES, Table
from tidings.tools import chat_costs, identity_costs
from tidings.tools.charges import NOTHING, Prices, Units, by_table
from tidings.tools.traffic import DAY_SECONDS, Flow, Traffic, flows

MONTH_HOURS: Final = 730
MONTH_DAYS: Final = 30
GIGABYTE: Final = 2**30
ITEM_BYTES: Final = 100
"""Bytes that DynamoDB adds to each stored item."""
KEY_DAYS: Final = 7
BUSY_MAX: Final = 0.7
"""Share of the provisioned capacity that the load may use."""

_CHAT_BYTES: Final = 450
_USER_BYTES: Final = 300
_DATA_KEY_BYTES: Final = 300
_REACTION_BYTES: Final = 120
_ENTRY_BYTES: Final = 220
"""Size of an entry that is not a message."""

CONNECTION_BYTES: Final = 11_300
"""Memory that an idle connection takes in the server, as measured."""
MEMORY_SHARE: Final = 0.6
"""Share of a gateway's memory that connections may take."""
CORE_BUSY_MAX: Final = 0.6
"""Share of a core that may be used at the busiest moment."""
PARTITIONS_MIN: Final = 8
EVENT_BYTES: Final = 300
"""Size of an event on the bus without its entry."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The units, size and price of one table under a load."""

    table: str
    average: Units
    """Units per second on average; `peak` is the same at the busiest moment."""
    peak: Units
    gigabytes_a_month: float
    """Growth per month. Content counts until it is removed."""
    gigabytes: float
    """Size after the days to plan for."""
    on_demand: float
    """Dollars per month if each unit is paid when it is used."""
    provisioned: float
    """Dollars per month if the capacity for the peak is provisioned at all times."""
    storage: float
    """Dollars per month for the stored data. They include point-in-time recovery and one full
    backup if the table has them."""

    @property
    def mode(self) -> str:
        """The billing mode that costs less."""
        return "provisioned" if self.provisioned < self.on_demand else "on demand"

    @property
    def dollars(self) -> float:
        """Dollars per month in the cheaper mode."""
        return min(self.provisioned, self.on_demand) + self.storage


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """The plan for all tables under a load."""

    load: Traffic
    prices: Prices
    tables: tuple[TablePlan, ...]
    flows: tuple[Flow, ...]

    @property
    def average(self) -> Units:
        """Units per second of all tables, on average."""
        return sum((table.average for table in self.tables), NOTHING)

    @property
    def dollars(self) -> float:
        """Dollars per month for all tables."""
        return sum(table.dollars for table in self.tables)

    @property
    def gigabytes(self) -> float:
        """Stored gigabytes of all tables."""
        return sum(table.gigabytes for table in self.tables)


def plan(load: Traffic, prices: Prices) -> CapacityPlan:
    """Return the capacity that the load needs in each table, and its price."""
    everything = tuple(flows(load))
    units: dict[str, Units] = {}
    for flow in everything:
        for table, used in by_table(flow.cost.in_all).items():
            units[table] = units.get(table, NOTHING) + used.times(flow.per_second)
    tables = (_table(table, units.get(table.name, NOTHING), load, prices) for table in TABLES)
    return CapacityPlan(load, prices, tuple(tables), everything)


def _table(table: Table, average: Units, load: Traffic, prices: Prices) -> TablePlan:
    peak = average.times(load.peak)
    steady, daily = _stored_bytes(load).get(table.name, (0.0, 0.0))
    kept = _days_kept(table.name, load)
    gigabytes = (steady + daily * kept) / GIGABYTE
    return TablePlan(
        table=table.name,
        average=average,
        peak=peak,
        gigabytes_a_month=daily * min(kept, MONTH_DAYS) / GIGABYTE,
        gigabytes=gigabytes,
        on_demand=_on_demand(average, prices),
        provisioned=_provisioned(peak, prices),
        storage=gigabytes
        * (
            prices.gigabyte_month
            + prices.recovery_gigabyte_month * table.pitr
            + prices.backup_gigabyte_month * (table.backup_days is not None)
        ),
    )


def _on_demand(average: Units, prices: Prices) -> float:
    millions = MONTH_HOURS * 3_600 / 1e6
    return millions * (
        average.write * prices.million_write_units + average.read * prices.million_read_units
    )


def _provisioned(peak: Units, prices: Prices) -> float:
    hours = MONTH_HOURS / BUSY_MAX
    return hours * (peak.write * prices.write_unit_hour + peak.read * prices.read_unit_hour)


def _days_kept(table: str, load: Traffic) -> float:
    match table:
        case "idempotency_keys":
            return KEY_DAYS
        case "bodies":
            return min(load.fleeting_days, load.plan_days)
        case _:
            return load.plan_days


def _stored_bytes(load: Traffic) -> dict[str, tuple[float, float]]:
    """For each table, return the bytes that do not depend on messages, and the bytes per day."""
    rows = load.dau * load.chats
    lasting = 1 - load.fleeting_share
    message = chat_costs.MESSAGE_BYTES + load.message_bytes * lasting + ITEM_BYTES
    changes = load.reactions_share + load.edits_share
    log = message + changes * (_ENTRY_BYTES + ITEM_BYTES)
    body = chat_costs.BODY_BYTES + load.message_bytes + ITEM_BYTES
    reaction = _REACTION_BYTES + ITEM_BYTES
    return {
        "messages": (0.0, load.messages * log),
        "bodies": (0.0, load.messages * load.fleeting_share * body),
        "idempotency_keys": (0.0, load.messages * (chat_costs.KEY_BYTES + ITEM_BYTES)),
        "chats": (load.chat_count * (_CHAT_BYTES + ITEM_BYTES), 0.0),
        "chat_memberships": (2 * rows * (chat_costs.MEMBER_BYTES + ITEM_BYTES), 0.0),
        "reactions": (0.0, load.messages * load.reactions_share * reaction),
        "delivery_state": (rows * (chat_costs.DIRECT_BYTES + ITEM_BYTES), 0.0),
        "users": (load.dau * (_USER_BYTES + ITEM_BYTES), 0.0),
        "sessions": (2 * load.dau * (identity_costs.SESSION_BYTES + ITEM_BYTES), 0.0),
        "keys": (load.dau * (_DATA_KEY_BYTES + ITEM_BYTES), 0.0),
    }


def requests_per_second(everything: tuple[Flow, ...]) -> float:
    """Return the average number of requests to the store per second."""
    return sum(
        flow.per_second * sum(charge.requests for charge in flow.cost.in_all) for flow in everything
    )


assert DAY_SECONDS * 365 == MONTH_HOURS * 3_600 * 12, "a month is a twelfth of a year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine to plan for: memory of a gateway process, and CPU time of each kind of work.

    Each process uses one core.
    """

    gateway_gb: float = 4.0
    request_us: float = 650.0
    """CPU time for one request to the store, measured with DynamoDB Local."""
    message_us: float = 35.0
    """CPU time for a message, without the requests to the store."""
    delivery_us: float = 4.0
    """CPU time for one frame to one connection."""
    entry_us: float = 200.0
    """CPU time that a delivery worker needs for an entry, without the requests to the store."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Number of processes, connections and partitions at the busiest moment."""

    connections: int
    store_requests_per_second: float
    gateways_by_memory: int
    gateways_by_processor: int
    workers: int
    partitions: int
    bus_megabytes_per_second: float

    @property
    def gateways(self) -> int:
        """Number of gateways that is enough for both the memory and the CPU time."""
        return max(self.gateways_by_memory, self.gateways_by_processor)


def fleet(plan: CapacityPlan, machine: Machine) -> Fleet:
    """Return the number of processes that a plan needs."""
    load = plan.load
    messages = load.messages_per_second * load.peak
    requests = requests_per_second(plan.flows) * load.peak
    deliveries = messages * load.readers * load.online_share
    connections = math.ceil(load.dau * load.connected_share)
    per_gateway = machine.gateway_gb * 2**30 * MEMORY_SHARE / CONNECTION_BYTES
    # A worker makes one request per message, for the head copy; gateways make all other requests.
    busy = (
        (requests - messages) * machine.request_us
        + messages * machine.message_us
        + deliveries * machine.delivery_us
    )
    workers = _cores(messages * (machine.request_us + machine.entry_us))
    size = chat_costs.MESSAGE_BYTES + load.message_bytes + EVENT_BYTES
    return Fleet(
        connections=connections,
        store_requests_per_second=requests,
        gateways_by_memory=max(1, math.ceil(connections / per_gateway)),
        gateways_by_processor=_cores(busy),
        workers=workers,
        partitions=max(PARTITIONS_MIN, 2 ** math.ceil(math.log2(2 * workers))),
        bus_megabytes_per_second=messages * size / 2**20,
    )


def _cores(microseconds_per_second: float) -> int:
    return max(1, math.ceil(microseconds_per_second / 1e6 / CORE_BUSY_MAX))
