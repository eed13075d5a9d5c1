# SPDX-License-Identifier: Apache-2.0
"""A plan to read, and the same for a program."""

from collections.abc import Iterable, Sequence
from typing import Any

from tidings.tools.capacity.charges import total
from tidings.tools.capacity.machines import Fleet, Machine
from tidings.tools.capacity.other_designs import estimate
from tidings.tools.capacity.planner import CapacityPlan
from tidings.tools.capacity.traffic import Traffic

_HEADS = (
    "table", "reads/s", "peak", "writes/s", "peak", "GB/month", "GB held", "on demand",
    "provisioned", "storage", "suggested",
)  # fmt: skip


def as_text(
    plan: CapacityPlan, fleet: Fleet, machine: Machine, *, design: str | None = None
) -> str:
    """Tables for a terminal."""
    load = plan.load
    parts = [
        f"{load.dau:,} users a day send {load.messages:,.0f} messages of {load.message_bytes:,} "
        f"bytes: {figure(load.messages_per_second)}/s on average, "
        f"{figure(load.messages_per_second * load.peak)}/s at the peak.",
        f"Units a second, and US dollars a month in {plan.prices.region}:",
        grid(_HEADS, [*_table_rows(plan), _total_row(plan)]),
    ]
    if design == "s2":
        parts += [
            "The estimate of s2 (operations a second, not units) beside ours (units):",
            grid(*_beside_s2(plan)),
        ]
    parts += [
        f"${plan.dollars:,.0f} a month in all, {_cents_per_thousand(plan)} cents for a thousand "
        "messages.",
        _processes(fleet, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _table_rows(plan: CapacityPlan) -> Iterable[Sequence[str]]:
    for one in plan.tables:
        yield (
            one.table,
            figure(one.average.read),
            figure(one.peak.read),
            figure(one.average.write),
            figure(one.peak.write),
            figure(one.gigabytes_a_month),
            figure(one.gigabytes),
            dollars(one.on_demand),
            dollars(one.provisioned),
            dollars(one.storage),
            one.mode,
        )


def _total_row(plan: CapacityPlan) -> Sequence[str]:
    peak = plan.average.times(plan.load.peak)
    return (
        "in all",
        figure(plan.average.read),
        figure(peak.read),
        figure(plan.average.write),
        figure(peak.write),
        figure(sum(one.gigabytes_a_month for one in plan.tables)),
        figure(plan.gigabytes),
        dollars(sum(one.on_demand for one in plan.tables)),
        dollars(sum(one.provisioned for one in plan.tables)),
        dollars(sum(one.storage for one in plan.tables)),
        dollars(plan.dollars),
    )


def _beside_s2(plan: CapacityPlan) -> tuple[Sequence[str], list[Sequence[str]]]:
    ours = {one.table: one for one in plan.tables}
    rows: list[Sequence[str]] = []
    for table, theirs in estimate(plan.load).items():
        mine = ours[table]
        rows.append(
            (
                table,
                figure(theirs.reads),
                figure(mine.average.read),
                figure(theirs.writes),
                figure(mine.average.write),
                figure(theirs.gigabytes),
                figure(mine.gigabytes),
            )
        )
    return ("table", "s2 reads/s", "ours", "s2 writes/s", "ours", "s2 GB", "ours"), rows


def _processes(fleet: Fleet, machine: Machine) -> str:
    return (
        f"Processes at the peak: {fleet.gateways:,} gateways of one core and "
        f"{machine.gateway_gb:g} GB ({fleet.gateways_by_memory:,} for {fleet.connections:,} "
        f"connections, {fleet.gateways_by_processor:,} for the processor time of "
        f"{figure(fleet.store_requests_per_second)} store requests a second), "
        f"{fleet.workers:,} delivery workers, {fleet.partitions:,} Kafka partitions "
        f"({figure(fleet.bus_megabytes_per_second)} MB/s)."
    )


def _cents_per_thousand(plan: CapacityPlan) -> str:
    monthly = plan.load.messages * 365 / 12
    return figure(100 * plan.dollars / (monthly / 1_000)) if monthly else "0"


def as_json(plan: CapacityPlan, fleet: Fleet, *, design: str | None = None) -> dict[str, Any]:
    """Everything in the report, unrounded."""
    found: dict[str, Any] = {
        "load": {name: getattr(plan.load, name) for name in Traffic.__dataclass_fields__},
        "region": plan.prices.region,
        "messages_per_second": plan.load.messages_per_second,
        "tables": {
            one.table: {
                "read_units_per_second": one.average.read,
                "write_units_per_second": one.average.write,
                "peak_read_units_per_second": one.peak.read,
                "peak_write_units_per_second": one.peak.write,
                "gigabytes_a_month": one.gigabytes_a_month,
                "gigabytes": one.gigabytes,
                "on_demand_dollars": one.on_demand,
                "provisioned_dollars": one.provisioned,
                "storage_dollars": one.storage,
                "suggested": one.mode,
                "dollars": one.dollars,
            }
            for one in plan.tables
        },
        "use_cases": {
            flow.name: {
                "per_second": flow.per_second,
                "write_units": total(flow.cost.in_all).write,
                "read_units": total(flow.cost.in_all).read,
            }
            for flow in plan.flows
        },
        "dollars": plan.dollars,
        "fleet": {
            "gateways": fleet.gateways,
            **{name: getattr(fleet, name) for name in Fleet.__dataclass_fields__},
        },
    }
    if design == "s2":
        found["s2"] = {name: one._asdict() for name, one in estimate(plan.load).items()}
    return found


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def figure(value: float) -> str:
    """A number with as many digits as help."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def dollars(value: float) -> str:
    """An amount."""
    return f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"
