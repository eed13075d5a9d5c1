# SPDX-License-Identifier: Apache-2.0
"""One send through two writers, a kick and an expiring tail, in every possible order.

This is the appender (`actions/chat/appender.py`) in small. Two processes carry the same send,
because its client repeated it. Each knows the log up to a head that may be stale, decides on what
it knows, claims the send's key, and puts its entry at head + 1 if nothing is there. Meanwhile
somebody else posts, the sender is removed, and the last entry, a message with a time to live,
expires.

A writer that dies is one that takes no further step, and every state is checked, so death at any
point is part of the model. What it found: a writer that has lost a slot must look for its own send
before it tries again, and before it says no; and an entry may lose its content, never its place.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import pytest

from tests.model.exploring import Exploration

Slot = Literal["created", "expiring", "emptied", "other", "removal", "message"] | None
"""What stands at a place of the log; None once it was deleted."""
Log = tuple[Slot, ...]
Step = Literal[
    "idle", "deciding", "claiming", "searching", "putting", "reading", "last look", "done"
]

STATES_MIN: Final = 3_000
"""Fewer would mean that the model no longer does what it is for."""


class Writer(NamedTuple):
    """One process on its way through the send."""

    step: Step = "idle"
    head: int = 0
    """How far it knows the log."""
    is_claimed: bool = False
    """The key is claimed, and the log holds no entry for it up to the head."""
    answer: int | Literal["refused"] | None = None
    """What the client was told: the message's sequence, or no."""


class State(NamedTuple):
    """The log, the send's key, the writers, and what may still happen around them."""

    log: Log = ("created", "expiring")
    hint: int | None = None
    """The claimed key: the entry stands here or later. None: not claimed."""
    writers: tuple[Writer, Writer] = (Writer(), Writer())
    will_post: bool = True
    will_kick: bool = True
    will_expire: bool = True
    stood: frozenset[tuple[int, Slot]] = frozenset({(1, "created"), (2, "expiring")})
    """Every entry that ever stood somewhere, with its place."""


class Rules(NamedTuple):
    """A variant of the design."""

    looks_for_own: bool = True
    """Whether a writer that lost a slot searches for its send before it tries again."""
    expiry: Literal["none", "empties", "deletes"] = "empties"
    key: Literal["before the entry", "with the entry"] = "before the entry"
    """Two writes, as on a store without a transaction over both, or one."""
    looks_before_refusing: bool = True
    """Whether a send that may not be appended (any more) is looked for before the answer is no."""


def head_of(log: Log) -> int:
    """The last place that holds something."""
    return max((place for place, slot in enumerate(log, 1) if slot is not None), default=0)


def put(log: Log, place: int, slot: Slot) -> Log | None:
    """The log with the slot claimed; None if it was taken."""
    if place <= len(log) and log[place - 1] is not None:
        return None
    padded = (*log, *[None] * (place - len(log)))
    return (*padded[: place - 1], slot, *padded[place:])


def find_sent(state: State) -> int | None:
    """Where the send stands, looked for from the hint on."""
    if state.hint is None:
        return None
    places = range(state.hint, head_of(state.log) + 1)
    return next((place for place in places if state.log[place - 1] == "message"), None)


class Model:
    """All moves of one variant."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Everything that can happen next."""
        for name, following in (*self._around(state), *self._writing(state)):
            entries = {(place, slot) for place, slot in enumerate(following.log, 1) if slot}
            new = {(place, slot) for place, slot in entries if slot != "emptied"}
            yield name, following._replace(stood=state.stood | new)

    def _around(self, state: State) -> Iterator[tuple[str, State]]:
        log, after_head = state.log, head_of(state.log) + 1
        posted, kicked = put(log, after_head, "other"), put(log, after_head, "removal")
        assert posted is not None
        assert kicked is not None
        if state.will_post:
            yield "another posts", state._replace(log=posted, will_post=False)
        if state.will_kick:
            yield "the sender is removed", state._replace(log=kicked, will_kick=False)
        # Only as the tail can it do harm: a deleted entry further down leaves a hole, no slot.
        if state.will_expire and self._rules.expiry != "none" and log[after_head - 2] == "expiring":
            left: Slot = "emptied" if self._rules.expiry == "empties" else None
            expired = tuple(left if slot == "expiring" else slot for slot in log)
            yield f"expiry {self._rules.expiry}", state._replace(log=expired, will_expire=False)

    def _writing(self, state: State) -> Iterator[tuple[str, State]]:
        for index, writer in enumerate(state.writers):
            for after, changed in self._step(state, writer):
                pair = (after, state.writers[1]) if index == 0 else (state.writers[0], after)
                yield f"writer {index}: {writer.step}", changed._replace(writers=pair)

    def _step(self, state: State, writer: Writer) -> Iterator[tuple[Writer, State]]:
        match writer.step:
            case "idle":
                for known in {1, head_of(state.log)}:  # a cache may be stale
                    yield writer._replace(step="deciding", head=known), state
            case "deciding":
                is_removed = "removal" in state.log[: writer.head]
                yield writer._replace(step="last look" if is_removed else "claiming"), state
            case "claiming":
                yield self._claim(state, writer)
            case "searching":
                found = find_sent(state)
                if found is not None:
                    yield writer._replace(step="done", answer=found), state
                else:
                    yield writer._replace(step="deciding", is_claimed=True), state
            case "putting":
                yield self._put(state, writer)
            case "reading":
                yield self._read(state, writer), state
            case "last look":
                found = find_sent(state) if self._rules.looks_before_refusing else None
                yield writer._replace(step="done", answer=found or "refused"), state
            case "done":
                pass

    def _claim(self, state: State, writer: Writer) -> tuple[Writer, State]:
        if writer.is_claimed:
            return writer._replace(step="putting"), state
        if state.hint is not None:
            return writer._replace(step="searching"), state
        claimed = state._replace(hint=writer.head + 1)
        if self._rules.key == "before the entry":
            return writer._replace(step="putting", is_claimed=True), claimed
        after, changed = self._put(claimed, writer)
        # One transaction: with the slot the key is lost too.
        return after, changed if after.step == "done" else state

    def _put(self, state: State, writer: Writer) -> tuple[Writer, State]:
        log = put(state.log, writer.head + 1, "message")
        if log is not None:
            done = writer._replace(step="done", answer=writer.head + 1)
            return done, state._replace(log=log)
        return writer._replace(step="reading"), state

    def _read(self, state: State, writer: Writer) -> Writer:
        """Who lost a slot reads on; its claim stands unless the send is among what it missed."""
        is_sent = self._rules.looks_for_own and "message" in state.log[writer.head :]
        return writer._replace(
            step="deciding",
            head=head_of(state.log),
            is_claimed=writer.is_claimed and not is_sent,
        )


def violations(state: State) -> Iterator[str]:
    """Which promises do not hold in this state."""
    log, answers = state.log, {writer.answer for writer in state.writers} - {None}
    if log.count("message") > 1:
        yield "two copies of one send"
    if len(answers - {"refused"}) > 1:
        yield "two different answers"
    if "refused" in answers and "message" in log:
        yield "refused, yet sent"
    if "removal" in log and "message" in log[log.index("removal") :]:
        yield "posted after removal"
    if len({place for place, _ in state.stood}) < len(state.stood):
        yield "one sequence, two entries"


def explore(rules: Rules) -> tuple[Exploration[State], dict[str, list[str]]]:
    """All states of a variant; and what goes wrong in it, with a shortest way to that."""
    exploration = Exploration(State(), Model(rules).moves)
    return exploration, exploration.ways_to_violate(violations)


def ends(exploration: Exploration[State]) -> list[set[object]]:
    """How it may end: the answers of the two writers."""
    return [
        {writer.answer for writer in state.writers}
        for state in exploration.states
        if all(writer.step == "done" for writer in state.writers)
    ]


@pytest.mark.parametrize("expiry", ["none", "empties"])
def test_a_send_is_kept_once_and_answered_alike_in_every_order(
    expiry: Literal["none", "empties"],
) -> None:
    exploration, wrong = explore(Rules(expiry=expiry))
    assert not wrong
    assert len(exploration) > STATES_MIN
    assert {3} in ends(exploration), "sent at once, and the repeat found it"
    assert {4} in ends(exploration), "sent after another, by writers with stale caches"
    assert {"refused"} in ends(exploration), "the kick was first"


def test_key_and_entry_in_one_transaction_keep_the_promises_too() -> None:
    exploration, wrong = explore(Rules(key="with the entry"))
    assert not wrong
    assert len(exploration) > 1_000


def test_without_the_search_after_a_lost_slot_one_send_becomes_two() -> None:
    exploration, wrong = explore(Rules(looks_for_own=False))
    assert set(wrong) == {"two copies of one send", "two different answers"}
    assert len(exploration) > STATES_MIN


def test_without_the_search_before_a_refusal_a_sent_message_is_denied() -> None:
    exploration, wrong = explore(Rules(looks_before_refusing=False))
    assert set(wrong) == {"refused, yet sent"}
    assert len(exploration) > STATES_MIN


@pytest.mark.parametrize("looks_for_own", [True, False])
def test_if_entries_could_be_deleted_no_search_would_help(looks_for_own: bool) -> None:
    exploration, wrong = explore(Rules(looks_for_own=looks_for_own, expiry="deletes"))
    assert set(wrong) >= {
        "one sequence, two entries",
        "posted after removal",
        "two copies of one send",
    }
    assert len(exploration) > STATES_MIN
