# SPDX-License-Identifier: Apache-2.0
"""An erasure and a send through another process, in every possible order and at every pace.

This is `data_keys.py` and `erasing.py` of `actions/content`, and the engine's put, in small. Time
is counted in steps that may pass between any two moves. A process that dies, or sleeps, is one that
takes no further step: every state is checked.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import pytest

from tests.model.exploring import Exploration

SEAL: Final = 1
OPEN: Final = 2
PUT: Final = 1
TIME_MAX: Final = 5
LONG_AGO: Final = -9
STATES_MIN: Final = 2_000
"""Fewer would mean that the model no longer does what it is for."""

Step = Literal["asked", "sealed", "put", "landed", "acknowledged", "unknown"]


class Sender(NamedTuple):
    """A process that holds a key, reads the feed now and then, and has one message to send."""

    held: int | None = None
    """The generation of the key in memory."""
    read_at: int = LONG_AGO
    seen_at: int = LONG_AGO
    knows_feed: bool = False
    """It has been told of the erasure."""
    loading: tuple[int, bool, int | None] | None = None
    """When the load began, what was known of the feed then, and which generation was read."""
    step: Step | None = None
    was_asked_late: bool = False
    """The message was asked for after the erasure had been answered."""
    sealed: int | None = None
    put_at: int = 0
    came_late: bool = False
    """It came into the store behind the destruction of its key."""


class State(NamedTuple):
    """The time, the author's key, and the sender."""

    time: int = 0
    ended_at: int | None = None
    destroyed_at: int | None = None
    sender: Sender = Sender(held=1, read_at=0)

    @property
    def is_destroyed(self) -> bool:
        return self.destroyed_at is not None


class Rules(NamedTuple):
    """A variant of the design."""

    wait: int = 3
    """How long after its end a key is destroyed; more than `SEAL` and `PUT`."""
    checks_before_the_put: bool = True
    checks_after_a_slow_put: bool = True
    reads_again_on_news: bool = True
    gives_no_ending_key: bool = True
    tells_devices_when_it_was_destroyed: bool = True
    """Otherwise they are told when the erasure began."""


def is_leased(state: State, steps: int) -> bool:
    """Whether the key in memory may be used."""
    sender = state.sender
    return sender.held is not None and max(sender.read_at, sender.seen_at) + steps >= state.time


def may_write(state: State) -> bool:
    """Whether what was sealed may be put."""
    return state.sender.held == state.sender.sealed and is_leased(state, SEAL)


def aged(state: State) -> Sender:
    """What is too old to count is all alike: fewer states to visit."""
    sender, oldest = state.sender, state.time + 1 - OPEN
    return sender._replace(
        read_at=sender.read_at if sender.read_at >= oldest else LONG_AGO,
        seen_at=sender.seen_at if sender.seen_at >= oldest else LONG_AGO,
    )


def moves_by(rules: Rules, state: State) -> Iterator[tuple[str, State]]:
    """All that can happen next."""
    if state.time < TIME_MAX:
        yield "time passes", state._replace(time=state.time + 1, sender=aged(state))
    if state.ended_at is None:
        yield "the erasure begins", state._replace(ended_at=state.time)
    elif not state.is_destroyed and state.time >= state.ended_at + rules.wait:
        yield "the key is destroyed, the erasure answered", state._replace(destroyed_at=state.time)
    for name, sender in (
        *feed_and_loads(rules, state),
        *sending(rules, state),
    ):
        yield name, state._replace(sender=sender)


def feed_and_loads(rules: Rules, state: State) -> Iterator[tuple[str, Sender]]:
    """How the sender comes to know what it knows."""
    sender = state.sender
    if state.ended_at is None or sender.knows_feed:
        yield "it reads the feed", sender._replace(seen_at=state.time)
    else:
        yield (
            "it reads the feed: news",
            sender._replace(seen_at=state.time, knows_feed=True, held=None),
        )
    if sender.loading is None:
        if state.is_destroyed:
            there: int | None = 2
        else:
            is_given = state.ended_at is None or not rules.gives_no_ending_key
            there = 1 if is_given else None
        yield "it reads the key", sender._replace(loading=(state.time, sender.knows_feed, there))
        return
    began, knew, read = sender.loading
    if read is not None and (knew == sender.knows_feed or not rules.reads_again_on_news):
        yield "it holds what it read", sender._replace(loading=None, held=read, read_at=began)
    else:
        yield "what it read is of no use", sender._replace(loading=None)


def sending(rules: Rules, state: State) -> Iterator[tuple[str, Sender]]:
    """The way of the message."""
    sender = state.sender
    match sender.step:
        case None:
            late = state.is_destroyed
            yield "a message is asked for", sender._replace(step="asked", was_asked_late=late)
        case "asked" if is_leased(state, SEAL):
            yield "it seals", sender._replace(step="sealed", sealed=sender.held)
        case "sealed" if may_write(state) or not rules.checks_before_the_put:
            yield "it puts", sender._replace(step="put", put_at=state.time)
        case "sealed":
            yield "it has to seal anew", sender._replace(step="asked", sealed=None)
        case "put":
            came_late = state.is_destroyed and sender.sealed == 1
            yield "the put lands", sender._replace(step="landed", came_late=came_late)
        case "landed":
            is_slow = state.time > sender.put_at + PUT
            if is_slow and not may_write(state) and rules.checks_after_a_slow_put:
                yield "it does not know", sender._replace(step="unknown")
            else:
                yield "it acknowledges", sender._replace(step="acknowledged")
        case _:
            return  # it waits for a key, or is done


def explore(rules: Rules, promise: str | None = None) -> Exploration[State]:
    """Every state under these rules, or those up to the first that breaks the promise."""
    return Exploration(
        State(),
        lambda state: moves_by(rules, state),
        lambda state: promise is not None and broken(rules, state) == promise,
    )


def broken(rules: Rules, state: State) -> str | None:
    """Which promise a state breaks."""
    sender = state.sender
    if sender.step == "acknowledged" and sender.came_late:
        return "acknowledged behind the destruction of its key"
    if sender.was_asked_late and sender.sealed == 1:
        return "sealed with a destroyed key"
    shows = sender.held == 1 and is_leased(state, OPEN)
    if shows and state.ended_at is not None and state.time > state.ended_at + OPEN:
        return "shown too long"
    before = state.destroyed_at if rules.tells_devices_when_it_was_destroyed else state.ended_at
    if state.is_destroyed and before is not None and sender.step in ("landed", "acknowledged"):
        if sender.sealed == 1 and sender.put_at > before:
            return "kept on devices although it is erased"
        if sender.sealed == 2 and sender.put_at < before:
            return "dropped from devices although it is not erased"
    return None


def test_no_order_loses_a_message_or_shows_an_erased_one() -> None:
    explored = explore(Rules())
    assert len(explored) > STATES_MIN
    for state in explored.states:
        assert broken(Rules(), state) is None, explored.way_to(state)
    ends = {(state.sender.step, state.sender.sealed) for state in explored.states}
    assert {("acknowledged", 1), ("acknowledged", 2), ("unknown", 1)} <= ends


@pytest.mark.parametrize(
    ("rules", "promise"),
    [
        (Rules(wait=SEAL), "acknowledged behind the destruction of its key"),
        (Rules(wait=SEAL - 1), "sealed with a destroyed key"),
        (Rules(checks_before_the_put=False), "acknowledged behind the destruction of its key"),
        (Rules(checks_after_a_slow_put=False), "acknowledged behind the destruction of its key"),
        (Rules(reads_again_on_news=False), "shown too long"),
        (Rules(gives_no_ending_key=False), "sealed with a destroyed key"),
        (
            Rules(tells_devices_when_it_was_destroyed=False),
            "kept on devices although it is erased",
        ),
    ],
    ids=str,
)
def test_nothing_can_be_left_out(rules: Rules, promise: str) -> None:
    explored = explore(rules, promise)
    assert promise in {broken(rules, state) for state in explored.states}
