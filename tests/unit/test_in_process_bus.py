# SPDX-License-Identifier: Apache-2.0
"""The bus of one process: who is called with which event, and in which order."""

import logging

import pytest

from tidings.buses.in_process import InProcessBus
from tidings.model.ids import ChatId, user_key
from tidings.ports.bus import Event, InboxRead, Invited, Typing

ANN = user_key("acme", "ann")
TYPING = Typing(ChatId("c"), ANN)
INVITED = Invited(ANN, ChatId("c"), user_key("acme", "bob"))
READ = InboxRead(ANN, "news")


def test_a_subscriber_gets_the_kinds_it_named_or_all() -> None:
    bus = InProcessBus()
    everything: list[Event] = []
    invited: list[Event] = []
    two_kinds: list[Event] = []
    bus.subscribe(everything.append)
    bus.subscribe(invited.append, Invited)
    bus.subscribe(two_kinds.append, Typing, InboxRead)

    for event in (TYPING, INVITED, READ):
        bus.publish(event)

    assert everything == [TYPING, INVITED, READ]
    assert invited == [INVITED]
    assert two_kinds == [TYPING, READ]


def test_subscribers_are_called_in_the_order_in_which_they_subscribed() -> None:
    bus = InProcessBus()
    called: list[str] = []
    bus.subscribe(lambda _: called.append("all"))
    bus.subscribe(lambda _: called.append("typing"), Typing)
    bus.subscribe(lambda _: called.append("all again"))

    bus.publish(TYPING)

    assert called == ["all", "typing", "all again"]


def test_a_subscriber_that_fails_is_logged_and_the_next_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = InProcessBus()
    heard: list[Event] = []

    def fail(_: Event) -> None:
        raise RuntimeError("sabotage")

    bus.subscribe(fail)
    bus.subscribe(heard.append)
    with caplog.at_level(logging.ERROR, "tidings.bus"):
        bus.publish(TYPING)

    assert heard == [TYPING]
    assert [record.__dict__["action"] for record in caplog.records] == ["subscriber_failed"]
