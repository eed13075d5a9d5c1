# SPDX-License-Identifier: Apache-2.0
"""Declares the alerts: when each fires, and a fault that makes it fire in a test."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

HEALTHY_MINUTES: Final = 10
FAULT_MINUTES: Final = 60
AFTER_MINUTES: Final = 120
"""The phases of the fault in a test of an alert."""


def counted(per_minute: int) -> str:
    """Return the values of a counter that grows only during the fault."""
    most = per_minute * FAULT_MINUTES
    return (
        f"0+0x{HEALTHY_MINUTES} {per_minute}+{per_minute}x{FAULT_MINUTES - 1} "
        f"{most}+0x{AFTER_MINUTES}"
    )


def measured(healthy: float, fault: float) -> str:
    """Return the values of a gauge that is different during the fault."""
    return (
        f"{healthy:g}+0x{HEALTHY_MINUTES} {fault:g}+0x{FAULT_MINUTES - 1} "
        f"{healthy:g}+0x{AFTER_MINUTES}"
    )


def slow(name: str, bound: float, **labels: str) -> Mapping[str, str]:
    """Return a histogram in which all values during the fault are above the bound."""
    none, all_values = counted(0), counted(600)
    return {
        series(f"{name}_bucket", le=f"{bound:g}", **labels): none,
        series(f"{name}_bucket", le=f"{10 * bound:g}", **labels): all_values,
        series(f"{name}_bucket", le="+Inf", **labels): all_values,
    }


def series(name: str, **labels: str) -> str:
    """Return a series as promtool writes it."""
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def p99(name: str, selector: str = "") -> str:
    """Return the query for the time within which 99 % of the values are."""
    chosen = f"{name}_bucket{{{selector}}}" if selector else f"{name}_bucket"
    return f"histogram_quantile(0.99, sum by (le) (rate({chosen}[5m])))"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert, and the series that make it fire in a test."""

    name: str
    says: str
    """What is wrong, for the person who is called."""
    query: str
    minutes: int
    """Time for which the query must have a result."""
    severity: Literal["page", "ticket"]
    """Whether somebody has to act now, or on the next working day."""
    fault: Mapping[str, str]
    labels: Mapping[str, str]
    """Labels of the result in the test."""

    @property
    def page(self) -> str:
        """Name of the page of its runbook: `TidingsBusLate` has bus-late.md."""
        words = re.findall(r"[A-Z][a-z]+", self.name.removeprefix("Tidings"))
        return f"{'-'.join(words).lower()}.md"


_ONE: Final = {"instance": "one:9464"}

ALERTS: Final = (
    Alert(
        "TidingsDown",
        "Prometheus cannot read the metrics of a process.",
        'up{job=~"tidings.*"} == 0',
        2,
        "page",
        {series("up", job="tidings", **_ONE): measured(1, 0)},
        {"job": "tidings", **_ONE},
    ),
    Alert(
        "TidingsSendsSlow",
        "One percent of the messages take more than half a second until they are durable.",
        f"{p99('tidings_send_seconds')} > 0.5",
        10,
        "page",
        slow("tidings_send_seconds", 0.5, via="socket", **_ONE),
        {},
    ),
    Alert(
        "TidingsDeliverySlow",
        "One percent of the entries reach sockets more than a second after they were sent.",
        p99("tidings_delivery_seconds", 'path=~"local|bus"') + " > 1",
        10,
        "page",
        slow("tidings_delivery_seconds", 1, path="bus", **_ONE),
        {},
    ),
    Alert(
        "TidingsRelayLate",
        "The relay finds entries that no worker delivered in time.",
        "sum(increase(tidings_relay_late_total[10m])) > 0",
        10,
        "ticket",
        {series("tidings_relay_late_total", **_ONE): counted(3)},
        {},
    ),
    Alert(
        "TidingsBusLate",
        "Events wait in the bus for more than ten seconds.",
        "max(tidings_bus_lag_seconds) > 10",
        5,
        "page",
        {series("tidings_bus_lag_seconds", topic="messages", **_ONE): measured(0, 60)},
        {},
    ),
    Alert(
        "TidingsSocketsOverloaded",
        "The server closes sockets with code 1013, because it or the client is too slow.",
        'sum(rate(tidings_sockets_closed_total{code="1013"}[5m])) > 0.1',
        5,
        "page",
        {series("tidings_sockets_closed_total", code="1013", **_ONE): counted(60)},
        {},
    ),
    Alert(
        "TidingsErrors",
        "More than one percent of the requests are answered with a status of 500 or more.",
        'sum(rate(tidings_requests_seconds_count{status=~"5.."}[5m])) '
        "/ sum(rate(tidings_requests_seconds_count[5m])) > 0.01",
        5,
        "page",
        {
            series("tidings_requests_seconds_count", status="200", **_ONE): counted(600),
            series("tidings_requests_seconds_count", status="503", **_ONE): counted(60),
        },
        {},
    ),
    Alert(
        "TidingsCommitsSlow",
        "One percent of the transactions of SQLite take more than a tenth of a second.",
        p99("tidings_store_seconds", 'operation="commit"') + " > 0.1",
        10,
        "page",
        slow("tidings_store_seconds", 0.1, operation="commit", **_ONE),
        {},
    ),
    Alert(
        "TidingsStoreBusy",
        "More than 200 operations wait for the store in one process.",
        "tidings_store_waiting > 200",
        5,
        "page",
        {series("tidings_store_waiting", **_ONE): measured(0, 500)},
        _ONE,
    ),
    Alert(
        "TidingsLoopSlow",
        "One percent of the timers of a process are called more than a tenth of a second late.",
        "histogram_quantile(0.99, sum by (le, instance) "
        "(rate(tidings_loop_lag_seconds_bucket[5m]))) > 0.1",
        10,
        "ticket",
        slow("tidings_loop_lag_seconds", 0.1, **_ONE),
        _ONE,
    ),
    Alert(
        "TidingsLoopFailing",
        "A background loop of a process fails again and again.",
        "sum by (instance, step) (increase(tidings_loop_failures_total[15m])) > 3",
        0,
        "ticket",
        {
            series("tidings_loop_failures_total", group="server", step="Sweeper", **_ONE): (
                counted(1)
            )
        },
        {"step": "Sweeper", **_ONE},
    ),
    Alert(
        "TidingsJobsAside",
        "Delivery jobs of notifications became dead letters.",
        "sum(increase(tidings_jobs_aside[1h])) > 0",
        0,
        "ticket",
        {series("tidings_jobs_aside", **_ONE): counted(1)},
        {},
    ),
    Alert(
        "TidingsPushFailing",
        "More than ten percent of the push notices are not accepted.",
        'sum(rate(tidings_push_total{outcome!~"sent|gone|ended|content_gone|outdated"}[15m])) '
        "/ sum(rate(tidings_push_total[15m])) > 0.1",
        15,
        "ticket",
        {
            series("tidings_push_total", outcome="sent", **_ONE): counted(60),
            series("tidings_push_total", outcome="failed", **_ONE): counted(60),
        },
        {},
    ),
    Alert(
        "TidingsHookFailing",
        "More than ten percent of the messages that hooks of tenants check get no verdict.",
        'sum(rate(tidings_before_send_seconds_count{outcome="failed"}[15m])) '
        "/ sum(rate(tidings_before_send_seconds_count[15m])) > 0.1",
        15,
        "ticket",
        {
            series("tidings_before_send_seconds_count", outcome="allow", **_ONE): counted(60),
            series("tidings_before_send_seconds_count", outcome="failed", **_ONE): counted(60),
        },
        {},
    ),
    Alert(
        "TidingsContentTampered",
        "Content or keys in the store cannot be decrypted.",
        'sum(increase(tidings_internal_total{part="vault",event="tampered"}[1h])) > 0',
        0,
        "page",
        {series("tidings_internal_total", part="vault", event="tampered", **_ONE): counted(1)},
        {},
    ),
    Alert(
        "TidingsBackupOld",
        "The newest backup of a data folder is more than 26 hours old.",
        "tidings_backup_age_seconds > 26 * 3600",
        0,
        "ticket",
        {series("tidings_backup_age_seconds", **_ONE): measured(3_600, 100_000)},
        _ONE,
    ),
    Alert(
        "TidingsFilesUsedUp",
        "A process has opened more than 80 % of the files that it may open.",
        "process_open_fds / process_max_fds > 0.8",
        10,
        "ticket",
        {
            series("process_open_fds", **_ONE): measured(100, 900),
            series("process_max_fds", **_ONE): measured(1_000, 1_000),
        },
        _ONE,
    ),
)
