# SPDX-License-Identifier: Apache-2.0
"""Pings, and when enough of them went unanswered."""

from tidings_client.heartbeat import WELCOME_SECONDS_MAX, Heartbeat


def test_a_server_that_does_not_greet_is_dead() -> None:
    heartbeat = Heartbeat(now=100)
    assert heartbeat.tick(100 + WELCOME_SECONDS_MAX - 0.1) is None
    assert heartbeat.tick(100 + WELCOME_SECONDS_MAX) == "dead"


def test_pings_come_at_the_pace_the_server_asked_for() -> None:
    heartbeat = Heartbeat(now=0)
    heartbeat.welcomed(1, heartbeat_ms=20_000)
    assert [heartbeat.tick(now) for now in (20, 21, 22)] == [None, "ping", None]
    heartbeat.pong()
    assert [heartbeat.tick(now) for now in (40, 41)] == [None, "ping"]


def test_three_missing_pongs_are_the_end() -> None:
    heartbeat = Heartbeat(now=0)
    heartbeat.welcomed(0, heartbeat_ms=1_000)
    assert [heartbeat.tick(now) for now in (1, 2, 3, 4)] == ["ping", "ping", "ping", "dead"]


def test_a_pong_makes_up_for_missing_ones() -> None:
    heartbeat = Heartbeat(now=0)
    heartbeat.welcomed(0, heartbeat_ms=1_000)
    assert [heartbeat.tick(now) for now in (1, 2, 3)] == ["ping"] * 3
    heartbeat.pong()
    assert heartbeat.tick(4) == "ping"
