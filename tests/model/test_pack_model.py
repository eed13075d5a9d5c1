# SPDX-License-Identifier: Apache-2.0
"""Packs, and sends without a key, in every possible order.

A pack is one item with several messages, put at the sequence of its first message. Two processes
carry the same send, because its client repeated it. Each may put it alone, or in a pack with
another message. Both were told `after`: how far the client knew the log when it first sent the
message. A process that remembers every message after that needs no key: if its memory has no such
message and it wins the next slot, there is none. A process that remembers less claims the key, and
searches the log from `after` on.

What it found: an item stands at its first sequence, never at its last; who reads a part of a pack
must not take that for the end of the log; a new claim proves nothing about messages without a key,
so the search is needed even then; and `after` belongs to the message: without it, a repeat of a
message that has no key is a second message.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import pytest

from tests.model.exploring import Exploration

Slot = Literal["created", "other", "removal", "message"]
Item = tuple[int, tuple[Slot, ...]]
"""The sequence of the first entry, and the entries."""
Log = frozenset[Item]
Step = Literal[
    "idle", "deciding", "claiming", "searching", "putting", "reading", "last look", "done"
]

AFTER: Final = 1
"""The client knew the entry `created` when it first sent its message."""
STATES_MIN: Final = 1_000
"""Fewer would mean that the model no longer does what it is for."""


class Rules(NamedTuple):
    """A variant of the design."""

    stands_at: Literal["first", "last"] = "first"
    """The sequence in the key of a pack."""
    reads: Literal["whole packs", "parts"] = "whole packs"
    searches_after_claim: bool = True
    """Whether the log is searched even if the key was free."""
    repeat_has_after: bool = True
    """Whether the second process is told `after`, too."""
    remembers: Literal["what it read", "anything"] = "what it read"
    """Whether a process knows how far back its memory goes."""


class Writer(NamedTuple):
    """One process on its way through the send."""

    step: Step = "idle"
    head: int = 0
    memory: int = 0
    """It remembers every message after this sequence, up to its head."""
    is_claimed: bool = False
    answer: int | Literal["refused"] | None = None


class State(NamedTuple):
    """The items of the log, the key of the send, the writers, and what may still happen."""

    log: Log = frozenset({(1, ("created",))})
    hint: int | None = None
    writers: tuple[Writer, Writer] = (Writer(), Writer())
    will_pack: bool = True
    will_kick: bool = True


def places(log: Log) -> list[tuple[int, Slot]]:
    """All entries with their sequences."""
    return sorted((first + index, slot) for first, slots in log for index, slot in enumerate(slots))


def head_of(log: Log) -> int:
    """The sequence of the last entry."""
    return places(log)[-1][0]


def found_in(log: Log, first: int, last: int) -> int | None:
    """Where the send stands between two sequences."""
    return next((at for at, slot in places(log) if slot == "message" and first <= at <= last), None)


class Model:
    """All moves of one variant."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def _put(self, log: Log, first: int, slots: tuple[Slot, ...]) -> Log | None:
        """The log with one more item; None if an item with the same key is there."""
        new = (first, slots)
        if self._key(new) in map(self._key, log):
            return None
        return log | {new}

    def _key(self, item: Item) -> int:
        first, slots = item
        return first if self._rules.stands_at == "first" else first + len(slots) - 1

    def moves(self, state: State) -> Iterator[tuple[str, State]]:
        """Everything that can happen next."""
        end = head_of(state.log) + 1
        if state.will_pack and (packed := self._put(state.log, end, ("other", "other"))):
            yield "others post a pack", state._replace(log=packed, will_pack=False)
        if state.will_kick and (kicked := self._put(state.log, end, ("removal",))):
            yield "the sender is removed", state._replace(log=kicked, will_kick=False)
        for index, writer in enumerate(state.writers):
            has_after = index == 0 or self._rules.repeat_has_after
            for after, changed in self._step(state, writer, has_after):
                pair = (after, state.writers[1]) if index == 0 else (state.writers[0], after)
                yield f"writer {index}: {writer.step}", changed._replace(writers=pair)

    def _step(
        self, state: State, writer: Writer, has_after: bool
    ) -> Iterator[tuple[Writer, State]]:
        end = head_of(state.log)
        match writer.step:
            case "idle":
                for known in {1, end}:  # a cache may be stale, and begins without a memory
                    yield writer._replace(step="deciding", head=known, memory=known), state
            case "deciding":
                yield self._decide(state, writer, has_after), state
            case "claiming":
                is_new = state.hint is None
                hint = AFTER + 1 if has_after else writer.head + 1
                is_known_new = is_new and not (has_after and self._rules.searches_after_claim)
                yield (
                    writer._replace(
                        step="putting" if is_known_new else "searching", is_claimed=is_known_new
                    ),
                    state._replace(hint=hint) if is_new else state,
                )
            case "searching" | "last look":
                first = state.hint or (AFTER + 1 if has_after else end + 1)
                found = found_in(state.log, first, end)
                if found is not None:
                    yield writer._replace(step="done", answer=found), state
                elif writer.step == "last look":
                    yield writer._replace(step="done", answer="refused"), state
                else:
                    yield writer._replace(step="deciding", is_claimed=True), state
            case "putting":
                yield from self._putting(state, writer)
            case "reading":
                yield from self._reading(state, writer)
            case "done":
                pass

    def _decide(self, state: State, writer: Writer, has_after: bool) -> Writer:
        known = [slot for at, slot in places(state.log) if at <= writer.head]
        if "removal" in known:
            return writer._replace(step="last look")
        if writer.is_claimed:
            return writer._replace(step="putting")
        is_remembered = writer.memory <= AFTER or self._rules.remembers == "anything"
        if not (has_after and is_remembered):
            return writer._replace(step="claiming")
        sent = found_in(state.log, writer.memory + 1, writer.head)
        if sent is not None:
            return writer._replace(step="done", answer=sent)
        return writer._replace(step="putting")

    def _putting(self, state: State, writer: Writer) -> Iterator[tuple[Writer, State]]:
        for slots, index in (
            (("message",), 0),
            (("message", "other"), 0),
            (("other", "message"), 1),
        ):
            log = self._put(state.log, writer.head + 1, slots)  # type: ignore[arg-type]
            if log is None:
                yield writer._replace(step="reading"), state
            else:
                sent = writer.head + 1 + index
                yield writer._replace(step="done", answer=sent), state._replace(log=log)

    def _reading(self, state: State, writer: Writer) -> Iterator[tuple[Writer, State]]:
        end = head_of(state.log)
        read = [end] if self._rules.reads == "whole packs" else [*range(writer.head + 1, end + 1)]
        for head in read:
            is_sent = found_in(state.log, writer.head + 1, head) is not None
            yield (
                writer._replace(
                    step="deciding", head=head, is_claimed=writer.is_claimed and not is_sent
                ),
                state,
            )


def violations(state: State) -> Iterator[str]:
    """Which promises do not hold in this state."""
    entries = places(state.log)
    slots = [slot for _, slot in entries]
    answers = {writer.answer for writer in state.writers} - {None}
    if slots.count("message") > 1:
        yield "two copies of one send"
    if len(answers - {"refused"}) > 1:
        yield "two different answers"
    if "refused" in answers and "message" in slots:
        yield "refused, yet sent"
    if "removal" in slots and "message" in slots[slots.index("removal") :]:
        yield "posted after removal"
    if [at for at, _ in entries] != [*range(1, len(entries) + 1)]:
        yield "one sequence, two entries, or none"


def explore(rules: Rules) -> tuple[Exploration[State], dict[str, list[str]]]:
    """All states of a variant; and what goes wrong in it, with a shortest way to that."""
    exploration = Exploration(State(), Model(rules).moves)
    return exploration, exploration.ways_to_violate(violations)


def test_a_packed_send_without_a_key_is_kept_once_and_answered_alike_in_every_order() -> None:
    exploration, wrong = explore(Rules())
    assert not wrong
    assert len(exploration) > STATES_MIN
    ends = [
        {writer.answer for writer in state.writers}
        for state in exploration.states
        if all(writer.step == "done" for writer in state.writers)
    ]
    assert {2} in ends, "sent at once, first in its pack"
    assert {5} in ends, "sent after another pack, last in its own"
    assert {"refused"} in ends, "the removal was first"


@pytest.mark.parametrize(
    "rules", [Rules(stands_at="last"), Rules(reads="parts")], ids=["at the last", "parts"]
)
def test_otherwise_two_writers_write_two_histories(rules: Rules) -> None:
    exploration, wrong = explore(rules)
    assert "one sequence, two entries, or none" in wrong
    assert len(exploration) > STATES_MIN


@pytest.mark.parametrize(
    "rules",
    [
        Rules(searches_after_claim=False),
        Rules(repeat_has_after=False),
        Rules(remembers="anything"),
    ],
    ids=["a new claim is trusted", "a repeat without after", "a memory without a beginning"],
)
def test_otherwise_one_send_becomes_two(rules: Rules) -> None:
    exploration, wrong = explore(rules)
    assert "two copies of one send" in wrong
    assert len(exploration) > STATES_MIN
