# SPDX-License-Identifier: Apache-2.0
"""Processes that a load needs: gateways by memory and CPU time, workers, Kafka partitions."""

import math
from dataclasses import dataclass
from typing import Final

from tidings.tools.capacity import costs
from tidings.tools.capacity.planner import CapacityPlan, requests_per_second

CONNECTION_BYTES: Final = 11_300
"""Measured server memory of an idle connection."""
MEMORY_SHARE: Final = 0.6
"""Share of a gateway's memory that connections may take."""
BUSY_MAX: Final = 0.6
"""Share of a core that may be used at the busiest moment."""
PARTITIONS_MIN: Final = 8
EVENT_BYTES: Final = 300
"""Size of an event on the bus without its entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Memory of a gateway process and CPU time of its work; a process has one core."""

    gateway_gb: float = 4.0
    request_us: float = 650.0
    """CPU time of one request to the store, measured on DynamoDB Local."""
    message_us: float = 35.0
    """CPU time of a message, without the store."""
    delivery_us: float = 4.0
    """CPU time of one frame to one connection."""
    entry_us: float = 200.0
    """CPU time of a delivery worker for an entry, without the store."""


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
        """Number of gateways that satisfies both memory and CPU time."""
        return max(self.gateways_by_memory, self.gateways_by_processor)


def fleet(plan: CapacityPlan, machine: Machine) -> Fleet:
    """Return the processes that a plan needs."""
    load = plan.load
    messages = load.messages_per_second * load.peak
    requests = requests_per_second(plan.flows) * load.peak
    deliveries = messages * load.readers * load.online_share
    connections = math.ceil(load.dau * load.connected_share)
    per_gateway = machine.gateway_gb * 2**30 * MEMORY_SHARE / CONNECTION_BYTES
    # The worker writes the head copy; every other request comes from a gateway.
    busy = (
        (requests - messages) * machine.request_us
        + messages * machine.message_us
        + deliveries * machine.delivery_us
    )
    workers = _cores(messages * (machine.request_us + machine.entry_us))
    size = costs.MESSAGE_BYTES + load.message_bytes + EVENT_BYTES
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
    return max(1, math.ceil(microseconds_per_second / 1e6 / BUSY_MAX))
