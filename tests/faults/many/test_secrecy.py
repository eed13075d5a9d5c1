# SPDX-License-Identifier: Apache-2.0
"""Every rule on frames turns red, and a run in which little happened counts as unknown."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.faults.history import History
from tests.faults.many import secrecy
from tests.faults.many.evictions import Eviction
from tests.faults.many.fleet import Done, Pause
from tests.faults.many.report import Enough, Report
from tests.faults.many.roaming import Heard, Roamer, Stay
from tests.faults.verdict import count
from tests.support.client_socket import Frame

URL = "http://127.0.0.1:1"
CHAT = "chat"
OLD = "2026-01-01T00:00:00.000Z"
NOW = 1_767_225_700.0
ROUND = Eviction(CHAT, removed=5, hidden=["secret"], created={2: OLD}, ended=10)
PAUSE = Pause(URL, stopped=100, resumed=200)
NOTHING = Enough(
    acknowledged=0, kills_in_flight=0, reconnects_with_news=0, kicks=0, finished_events=0
)


def a_roamer(*frames: Frame, at: int, opened: int = 0, code: int | None = None) -> Roamer:
    roamer = Roamer([URL], "token", "phone", random.Random(0))
    stay = Stay(URL, opened, None if code is None else at, code)
    roamer.stays.append(stay)
    roamer.heard += [Heard(at, stay, frame) for frame in frames]
    return roamer


def a_roamer_that_dropped(*frames: Frame, at: int) -> Roamer:
    roamer = a_roamer(*frames, at=at, code=1006)
    roamer.stays[-1].was_dropped = True
    return roamer


def entry(sequence: int, content: str = "hello") -> Frame:
    return {"op": "entry", "chat": CHAT, "sequence": sequence, "content": content}


def page(sequence: int) -> Frame:
    return {"op": "page", "chat": CHAT, "entries": [entry(sequence)]}


def notice(sequence: int) -> dict[str, object]:
    return {"chat": CHAT, "sequence": sequence}


BAD = {
    "overheard": lambda: secrecy.overheard([a_roamer({"op": "typing", "chat": CHAT}, at=1)]),
    "entry after removal": lambda: secrecy.after_removal([a_roamer(entry(6), at=1)], [ROUND]),
    "page after removal": lambda: secrecy.after_removal([a_roamer(page(6), at=1)], [ROUND]),
    "replayed": lambda: secrecy.after_replay([a_roamer(entry(3), at=20)], [ROUND], 11),
    "unhidden": lambda: secrecy.unhidden([a_roamer(entry(2, "secret"), at=20)], [ROUND], 11),
    "pushed again": lambda: secrecy.pushed_again([notice(2)], [ROUND], NOW),
    "stale": lambda: secrecy.stale([a_roamer(entry(3), at=201)], [PAUSE]),
    "stale before it dropped": lambda: secrecy.stale(
        [a_roamer_that_dropped(entry(3), at=201)], [PAUSE]
    ),
    "closed wrongly": lambda: secrecy.stale([a_roamer(at=201, code=1006)], [PAUSE]),
}
GOOD = {
    "a welcome": lambda: secrecy.overheard([a_roamer({"op": "welcome"}, at=1)]),
    "the removal": lambda: secrecy.after_removal([a_roamer(entry(5), at=1)], [ROUND]),
    "the removal again": lambda: secrecy.after_replay([a_roamer(entry(5), at=20)], [ROUND], 11),
    "before": lambda: secrecy.unhidden([a_roamer(entry(2, "secret"), at=10)], [ROUND], 11),
    "still new": lambda: secrecy.pushed_again([notice(2)], [ROUND], NOW - 80),
    "closed": lambda: secrecy.stale([a_roamer(at=201, code=1012)], [PAUSE]),
    "dropped": lambda: secrecy.stale([a_roamer_that_dropped(at=201)], [PAUSE]),
    "came later": lambda: secrecy.stale([a_roamer(entry(3), at=201, opened=150)], [PAUSE]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_rule_sees(name: str) -> None:
    violations: Iterator[str] = BAD[name]()
    assert len(list(violations)) == 1


@pytest.mark.parametrize("name", GOOD)
def test_a_rule_lets_pass(name: str) -> None:
    violations: Iterator[str] = GOOD[name]()
    assert list(violations) == []


def test_a_run_without_trouble_is_unknown() -> None:
    report = Report(counts=count(History()), violations=[], done=Done())
    assert report.outcome(NOTHING) == "valid"
    assert report.outcome(replace(NOTHING, pauses_felt=1)) == "unknown"
    assert report.outcome(replace(NOTHING, flushes=1)) == "unknown"
    report.violations.append("lost: something")
    assert report.outcome(replace(NOTHING, flushes=1)) == "invalid"
