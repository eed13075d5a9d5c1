# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alert rules: they name metrics that exist, and have runbooks."""

import json
import re
from collections.abc import Iterable

import pytest

from scripts.metrics_page import PAGE as METRICS_PAGE
from scripts.observability.alerts import ALERTS, Alert
from scripts.observability.dashboard import dashboard
from scripts.observability.rules import RUNBOOKS
from scripts.write_generated import ROOT
from tidings.metrics.counts import INTERNAL
from tidings.metrics.meters import METRICS
from tidings.model.explaining import MEANINGS

OTHERS = {"up", "process_open_fds", "process_max_fds"}
"""Metrics of Prometheus itself and of its library."""
SECTIONS = ["What you see", "Why", "What to do", "How to know that it is over"]
STEPS = ["When", "What to do", "How to know that it is over", "How to go back"]

FAULTS = {
    "a process is killed": "process-killed.md",
    "a process is paused": "process-killed.md",
    "the power fails": "power-loss.md",
    "the disk is full or fails": "disk-full.md",
    "a flipped bit or a torn write": "store-damaged.md",
    "a restore is interrupted": "store-damaged.md",
    "the network is cut or slow": "network.md",
    "names cannot be resolved": "network.md",
    "a certificate has expired": "certificate-expired.md",
    "the clock jumps": "clock-wrong.md",
    "a client reads slowly": "slow-clients.md",
    "acknowledgements are lost, repeated or wrong": "slow-clients.md",
    "the store throttles or does not answer": "store-throttled.md",
    "Redis is down, empty or a replica": "redis-down.md",
    "Kafka is down, rebalances or loses events": "kafka-down.md",
    "versions are mixed": "upgrade.md",
}
"""The faults that the tests make, each with the page that tells an operator what to do."""
FIRING = ("faults/test_alerts_fire.py", "faults/test_fleet_alerts_fire.py")
EXPLAINING = (
    "integration/test_explain.py",
    "integration/test_rest_escalation.py",
    "integration/test_rest_explain_notification.py",
    "faults/test_explain_held_up.py",
)
PROCEDURES = ("rolling-restart.md", "upgrade.md", "move-master-key.md")

_METRIC = re.compile(r"\b(?:tidings|process)_[a-z_]+|\bup\b")
_PART = re.compile(r"_(bucket|sum|count)$")


def metrics_in(query: str) -> set[str]:
    """The metrics that a query or a text names."""
    return {
        name if name in METRICS else _PART.sub("", name)
        for name in _METRIC.findall(query)
        if name not in OTHERS
    }


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    panels = json.loads(dashboard())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert set().union(*map(metrics_in, queries)) == set(METRICS)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_names_metrics_that_exist_and_has_a_runbook(alert: Alert) -> None:
    assert metrics_in(alert.query) <= set(METRICS)
    page = (ROOT / RUNBOOKS / alert.page).read_text()
    assert page.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    assert metrics_in(page) - {"process_cpu_seconds_total"} <= set(METRICS)


def not_named(names: Iterable[str], files: Iterable[str]) -> list[str]:
    """The names that none of these tests mentions."""
    text = "".join((ROOT / "tests" / file).read_text() for file in files)
    return [name for name in names if f'"{name}"' not in text]


def test_a_long_test_makes_every_alert_fire_in_a_real_prometheus() -> None:
    assert not_named((alert.name for alert in ALERTS), FIRING) == []


def test_every_verdict_of_an_explanation_is_reached_through_a_server() -> None:
    assert not_named(MEANINGS, EXPLAINING) == []


@pytest.mark.parametrize("page", sorted({*FAULTS.values(), *PROCEDURES}))
def test_a_runbook_for_a_fault_or_a_procedure_is_complete(page: str) -> None:
    text = (ROOT / RUNBOOKS / page).read_text()
    expected = STEPS if page in PROCEDURES else SECTIONS
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == expected
    assert metrics_in(text) <= set(METRICS)


def test_every_runbook_is_for_an_alert_a_fault_or_a_procedure() -> None:
    pages = {path.name for path in (ROOT / RUNBOOKS).iterdir()}
    assert pages == {alert.page for alert in ALERTS} | {*FAULTS.values(), *PROCEDURES}


def test_every_metric_and_every_internal_event_is_documented() -> None:
    page = (ROOT / METRICS_PAGE).read_text()
    assert metrics_in(page) >= set(METRICS)
    for part, events in INTERNAL.items():
        for event in events:
            assert f"| `{part}` | `{event}` |" in page
