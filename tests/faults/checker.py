# SPDX-License-Identifier: Apache-2.0
"""Decides from the clients' history alone whether a server kept its promises.

Each rule returns the violations it found, in words. A run that broke nothing because nothing
happened is neither valid nor invalid: it is unknown.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from tests.faults.history import Answer, Attempt, History, Seen
from tests.faults.verdict import Verdict, count


def check(history: History) -> Verdict:
    """Apply every rule."""
    counts = count(history)
    violations = [violation for rule in RULES for violation in rule(history)]
    if violations:
        return Verdict("invalid", violations, counts)
    return Verdict("valid" if counts.is_enough else "unknown", [], counts)


# --- Rules ---------------------------------------------------------------------------------------


def lost(history: History) -> Iterator[str]:
    """Whatever was acknowledged is there."""
    there = {(chat, seen.what) for chat, log in history.final.items() for seen in log}
    for attempt in _acknowledged(history):
        if (attempt.chat, attempt.body) not in there:
            yield f"lost: {attempt.body} was acknowledged ({attempt.answer}) and is not there"


def doubled(history: History) -> Iterator[str]:
    """However often it was sent, a message is there once."""
    for chat, shown in _everything(history).items():
        places = defaultdict(set)
        for seen in shown:
            if seen.message_id is not None:
                places[seen.what].add(seen.sequence)
        for body, sequences in places.items():
            if len(sequences) > 1:
                yield f"doubled: {body} stands at {sorted(sequences)} of {chat}"


def phantom(history: History) -> Iterator[str]:
    """A definite refusal left no trace, and nothing is there that nobody sent."""
    refused = {a.body for a in history.attempts if a.outcome == "fail"}
    sent = {(a.chat, a.body) for a in history.attempts}
    for chat, shown in _everything(history).items():
        for seen in shown:
            if seen.message_id is None:
                continue
            if seen.what in refused:
                yield f"phantom: {seen.what} was refused and stands at {seen.sequence} of {chat}"
            if (chat, seen.what) not in sent:
                yield f"alien: nobody sent {seen.what}, at {seen.sequence} of {chat}"


def agreement(history: History) -> Iterator[str]:
    """All who ever saw a place in a log saw the same there."""
    for chat, shown in _everything(history).items():
        places: dict[int, set[Seen]] = defaultdict(set)
        for seen in shown:
            places[seen.sequence].add(seen)
        for sequence, versions in places.items():
            if len(versions) > 1:
                yield f"disagreement: {sequence} of {chat} was seen as {versions}"


def gapless(history: History) -> Iterator[str]:
    """A log is 1..head."""
    for chat, log in history.final.items():
        sequences = [seen.sequence for seen in log]
        if sequences != list(range(1, len(log) + 1)):
            yield f"gap: the log of {chat} is {_abridged(sequences)}"


def in_step(history: History) -> Iterator[str]:
    """A device applied one entry after the other, none twice, none left out."""
    for view in history.views:
        for before, after in zip(view.log, view.log[1:], strict=False):
            if after.sequence != before.sequence + 1:
                yield (
                    f"skip: {view.device} went from {before.sequence} to {after.sequence}"
                    f" in {view.chat}"
                )


def complete(history: History) -> Iterator[str]:
    """In the end a device of a member has the whole log."""
    for view in history.views:
        held = {seen.sequence for seen in view.log}
        missing = [s.sequence for s in history.final[view.chat] if s.sequence not in held]
        if missing:
            yield f"incomplete: {view.device} never got {_abridged(missing)} of {view.chat}"
        if held and max(held) > len(history.final[view.chat]):
            yield f"rolled back: {view.device} got {max(held)} of {view.chat}, past its head"


def one_answer(history: History) -> Iterator[str]:
    """Every acknowledgement of a message says the same, and the log says so too."""
    places = {
        (chat, seen.what): Answer(seen.sequence, seen.message_id or "", seen.created_at)
        for chat, log in history.final.items()
        for seen in log
    }
    told: dict[tuple[str, str], Answer] = {}
    for attempt in _acknowledged(history):
        assert attempt.answer is not None
        first = told.setdefault((attempt.chat, attempt.body), attempt.answer)
        if first != attempt.answer:
            yield f"two answers: {attempt.body}: {first}, then {attempt.answer}"
        there = places.get((attempt.chat, attempt.body), first)
        if there != first:
            yield f"moved: {attempt.body} was acknowledged as {first} and is {there}"


def in_real_time(history: History) -> Iterator[str]:
    """What was acknowledged before another send began stands before it."""
    place = {(c, seen.what): seen.sequence for c, log in history.final.items() for seen in log}
    began: dict[tuple[str, str], int] = {}
    known: dict[tuple[str, str], int] = {}
    for attempt in history.attempts:
        message = attempt.chat, attempt.body
        if message in place:
            began[message] = min(began.get(message, attempt.invoked), attempt.invoked)
            if attempt.outcome == "ok":
                known[message] = min(known.get(message, attempt.ended), attempt.ended)
    answers = sorted(known, key=known.__getitem__)
    highest: dict[str, int] = defaultdict(int)
    upcoming = 0
    for message in sorted(began, key=began.__getitem__):
        while upcoming < len(answers) and known[answers[upcoming]] < began[message]:
            before = answers[upcoming]
            highest[before[0]] = max(highest[before[0]], place[before])
            upcoming += 1
        if place[message] <= highest[message[0]]:
            yield (
                f"out of time: {message[1]} stands at {place[message]} of {message[0]}, where"
                f" {highest[message[0]]} was acknowledged before it was sent"
            )


def in_order_of_connection(history: History) -> Iterator[str]:
    """Sends of one connection to one chat keep their order, also if nobody waited between them."""
    tried: set[str] = set()
    last: dict[tuple[str, str], int] = {}
    for attempt in sorted(history.attempts, key=lambda a: a.invoked):
        is_first = attempt.body not in tried
        tried.add(attempt.body)
        if not is_first or attempt.answer is None:
            continue
        line = attempt.process, attempt.chat
        if attempt.answer.sequence < last.get(line, 0):
            yield (
                f"overtaken: {attempt.body} got {attempt.answer.sequence} of {attempt.chat}, and"
                f" an earlier one of {attempt.process} got {last[line]}"
            )
        last[line] = max(last.get(line, 0), attempt.answer.sequence)


RULES: Final[tuple[Callable[[History], Iterator[str]], ...]] = (
    lost,
    doubled,
    phantom,
    agreement,
    gapless,
    in_step,
    complete,
    one_answer,
    in_real_time,
    in_order_of_connection,
)


# --- What several rules look at ------------------------------------------------------------------


def _acknowledged(history: History) -> list[Attempt]:
    return [attempt for attempt in history.attempts if attempt.outcome == "ok"]


def _everything(history: History) -> dict[str, set[Seen]]:
    """All that anybody saw, by chat."""
    shown: dict[str, set[Seen]] = defaultdict(set)
    for chat, glimpses in history.glimpses.items():
        shown[chat] |= glimpses
    for chat, log in history.final.items():
        shown[chat].update(log)
    for view in history.views:
        shown[view.chat].update(view.log)
    return shown


def _abridged(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 20 else f"{numbers[:10]} … {numbers[-10:]}"
