# SPDX-License-Identifier: Apache-2.0
"""Report of a capacity plan, as text for a terminal and as JSON for a program."""

from collections.abc import Iterable, Sequence
from typing import Any

from tidings.tools.capacity_plan import CapacityPlan, Fleet, Machine
from tidings.tools.charges import total
from tidings.tools.other_designs import COUNTER_AND_ROWS, estimate
from tidings.tools.traffic import Traffic

_HEADS = (
    "table", "reads/s", "peak", "writes/s", "peak", "GB/month", "GB stored", "on demand",
    "provisioned", "storage", "suggested",
)  # fmt: skip


def as_text(
    plan: CapacityPlan, fleet: Fleet, machine: Machine, *, design: str | None = None
) -> str:
    """Return the plan as tables for a terminal, compared with another `design` if one is given."""
    load = plan.load
    parts = [
        f"{load.dau:,} users per day send {load.messages:,.0f} messages of {load.message_bytes:,} "
        f"bytes: {figure(load.messages_per_second)}/s on average, "
        f"{figure(load.messages_per_second * load.peak)}/s at the peak.",
        f"Units per second, and US dollars per month in {plan.prices.region}:",
        grid(_HEADS, [*_table_rows(plan), _total_row(plan)]),
    ]
    if design == COUNTER_AND_ROWS.name:
        parts += [
            f"{design} (estimated operations per second, not units) and Tidings (units):",
            grid(*_beside_counter_and_rows(plan)),
        ]
    parts += [
        f"${plan.dollars:,.0f} per month in total, {_cents_per_thousand(plan)} cents per thousand "
        "messages.",
        _processes(fleet, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _table_rows(plan: CapacityPlan) -> Iterable[Sequence[str]]:
    for table in plan.tables:
        yield (
            table.table,
            figure(table.average.read),
            figure(table.peak.read),
            figure(table.average.write),
            figure(table.peak.write),
            figure(table.gigabytes_a_month),
            figure(table.gigabytes),
            dollars(table.on_demand),
            dollars(table.provisioned),
            dollars(table.storage),
            table.mode,
        )


def _total_row(plan: CapacityPlan) -> Sequence[str]:
    peak = plan.average.times(plan.load.peak)
    return (
        "total",
        figure(plan.average.read),
        figure(peak.read),
        figure(plan.average.write),
        figure(peak.write),
        figure(sum(table.gigabytes_a_month for table in plan.tables)),
        figure(plan.gigabytes),
        dollars(sum(table.on_demand for table in plan.tables)),
        dollars(sum(table.provisioned for table in plan.tables)),
        dollars(sum(table.storage for table in plan.tables)),
        dollars(plan.dollars),
    )


def _beside_counter_and_rows(plan: CapacityPlan) -> tuple[Sequence[str], list[Sequence[str]]]:
    ours = {
        table.table: (table.average.read, table.average.write, table.gigabytes)
        for table in plan.tables
    }
    rows: list[Sequence[str]] = []
    for table, theirs in estimate(plan.load).items():
        # Tidings has no table of counters, so nothing is read or written there.
        read, write, gigabytes = ours.get(table, (0.0, 0.0, 0.0))
        rows.append(
            (
                table,
                figure(theirs.reads),
                figure(read),
                figure(theirs.writes),
                figure(write),
                figure(theirs.gigabytes),
                figure(gigabytes),
            )
        )
    return ("table", "reads/s", "Tidings", "writes/s", "Tidings", "GB", "Tidings"), rows


def _processes(fleet: Fleet, machine: Machine) -> str:
    return (
        f"Processes at the peak: {fleet.gateways:,} gateways of one core and "
        f"{machine.gateway_gb:g} GB ({fleet.gateways_by_memory:,} for {fleet.connections:,} "
        f"connections, {fleet.gateways_by_processor:,} for the CPU time of "
        f"{figure(fleet.store_requests_per_second)} store requests per second), "
        f"{fleet.workers:,} delivery workers, {fleet.partitions:,} Kafka partitions "
        f"({figure(fleet.bus_megabytes_per_second)} MB/s)."
    )


def _cents_per_thousand(plan: CapacityPlan) -> str:
    monthly = plan.load.messages * 365 / 12
    return figure(100 * plan.dollars / (monthly / 1_000)) if monthly else "0"


def as_json(plan: CapacityPlan, fleet: Fleet, *, design: str | None = None) -> dict[str, Any]:
    """Return the figures of the report without rounding."""
    found: dict[str, Any] = {
        "load": {name: getattr(plan.load, name) for name in Traffic.__dataclass_fields__},
        "region": plan.prices.region,
        "messages_per_second": plan.load.messages_per_second,
        "tables": {
            table.table: {
                "read_units_per_second": table.average.read,
                "write_units_per_second": table.average.write,
                "peak_read_units_per_second": table.peak.read,
                "peak_write_units_per_second": table.peak.write,
                "gigabytes_a_month": table.gigabytes_a_month,
                "gigabytes": table.gigabytes,
                "on_demand_dollars": table.on_demand,
                "provisioned_dollars": table.provisioned,
                "storage_dollars": table.storage,
                "suggested": table.mode,
                "dollars": table.dollars,
            }
            for table in plan.tables
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
    if design == COUNTER_AND_ROWS.name:
        rows = estimate(plan.load).items()
        found[COUNTER_AND_ROWS.name] = {table: row._asdict() for table, row in rows}
    return found


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as text in columns; the first column is aligned left, the others right."""
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
    """Format a number with three significant digits; from 100 on, without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def dollars(value: float) -> str:
    """Format an amount of dollars, with cents only below $100."""
    return f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"
