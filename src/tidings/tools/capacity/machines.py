# SPDX-License-Identifier: Apache-2.0
"""Processes for a load: gateways by memory and by processor time, workers, Kafka partitions."""

import math
from dataclasses import dataclass
from typing import Final

from tidings.tools.capacity import costs
from tidings.tools.capacity.planner import CapacityPlan, requests_per_second

CONNECTION_BYTES: Final = 11_300
"""Of server memory for an idle connection, as measured."""
MEMORY_SHARE: Final = 0.6
"""Of a gateway's memory that connections may take."""
BUSY_MAX: Final = 0.6
"""Of a core, at the busiest moment."""
PARTITIONS_MIN: Final = 8
EVENT_BYTES: Final = 300
"""Around an entry on the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a gateway process has and what things take: one process has one core."""

    gateway_gb: float = 4.0
    request_us: float = 650.0
    """Processor time of one request to the store, measured on DynamoDB Local."""
    message_us: float = 35.0
    """Of a message, without the store."""
    delivery_us: float = 4.0
    """Of one frame to one connection."""
    entry_us: float = 200.0
    """Of a delivery worker for an entry, without the store."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many of each it takes at the busiest moment."""

    connections: int
    store_requests_per_second: float
    gateways_by_memory: int
    gateways_by_processor: int
    workers: int
    partitions: int
    bus_megabytes_per_second: float

    @property
    def gateways(self) -> int:
        """Whichever asks for more."""
        return max(self.gateways_by_memory, self.gateways_by_processor)


def fleet(plan: CapacityPlan, machine: Machine) -> Fleet:
    """The processes for a plan."""
    load = plan.load
    messages = load.messages_per_second * load.peak
    requests = requests_per_second(plan.flows) * load.peak
    deliveries = messages * load.readers * load.online_share
    connections = math.ceil(load.dau * load.connected_share)
    held = machine.gateway_gb * 2**30 * MEMORY_SHARE / CONNECTION_BYTES
    # The head copy is the worker's; all else is asked for by a gateway.
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
        gateways_by_memory=max(1, math.ceil(connections / held)),
        gateways_by_processor=_cores(busy),
        workers=workers,
        partitions=max(PARTITIONS_MIN, 2 ** math.ceil(math.log2(2 * workers))),
        bus_megabytes_per_second=messages * size / 2**20,
    )


def _cores(microseconds_per_second: float) -> int:
    return max(1, math.ceil(microseconds_per_second / 1e6 / BUSY_MAX))
