# SPDX-License-Identifier: Apache-2.0
"""Gathered events of webhooks: tenants take turns, and nothing holds up the others for ever."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.clock import ManualClock
from tests.support.delivery import at_once
from tests.support.waiting import until
from tidings.delivery import webhook_events
from tidings.delivery.webhook_events import BusEvents
from tidings.model.ids import user_key
from tidings.ports.bus import Expired, InboxRead


class Events:
    """The events of tenants, of which those of the tenant `broken` cannot be stored."""

    def __init__(self) -> None:
        self.raised: list[tuple[str, str]] = []

    def is_wanted(self, _tenant: str, _kind: str) -> bool:
        return True

    async def __call__(
        self, tenant: str, _kind: str, data: Mapping[str, object], _once: str | None
    ) -> None:
        if tenant == "broken":
            raise RuntimeError("unexpected")
        self.raised.append((tenant, str(data["user_id"])))


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def gathered(events: Events) -> BusEvents:
    log: Any = None
    double: Any = events
    return BusEvents(double, log, ManualClock(), at_once)


def read(gathered: BusEvents, tenant: str, *users: str) -> None:
    for user in users:
        gathered.on_inbox_read(InboxRead(user_key(tenant, user), "news"))


async def test_tenants_take_turns(gathered: BusEvents, events: Events) -> None:
    read(gathered, "busy", "a", "b", "c")
    read(gathered, "quiet", "x")
    await gathered.raise_all()
    assert events.raised == [("busy", "a"), ("quiet", "x"), ("busy", "b"), ("busy", "c")]


async def test_one_tenant_does_not_take_all_the_room(
    gathered: BusEvents, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_events, "TENANT_GATHERED_MAX", 2)
    monkeypatch.setattr(webhook_events, "GATHERED_MAX", 3)
    read(gathered, "busy", "a", "b", "c", "a")
    read(gathered, "quiet", "x", "y")
    assert gathered.dropped == 2
    for number in range(4):
        gathered.on_expired(Expired(f"chat-{number}", (1,)))  # type: ignore[arg-type]
    assert gathered.dropped == 3
    gathered._expired.clear()
    await gathered.raise_all()
    assert events.raised == [("busy", "a"), ("quiet", "x"), ("busy", "b")]


async def test_an_event_that_fails_holds_up_no_other(
    gathered: BusEvents,
    events: Events,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(webhook_events, "GATHER_SECONDS", 0.0)
    gathered.start()
    read(gathered, "broken", "a")
    read(gathered, "quiet", "x")
    await until(lambda: events.raised == [("quiet", "x")])
    read(gathered, "quiet", "y")
    await until(lambda: events.raised[1:] == [("quiet", "y")])
    await gathered.close()
    assert gathered.dropped == 1
    assert "events of webhooks were dropped" in caplog.text
