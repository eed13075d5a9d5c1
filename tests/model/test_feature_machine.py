# SPDX-License-Identifier: Apache-2.0
"""Files, search, scheduled messages, reports and bans are as the reference says, among all else."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.model.member_rules import MemberRules
from tests.model.message_rules import MessageRules
from tests.model.moderation_rules import ModerationRules
from tests.model.product import Engine
from tests.model.reading_rules import ReadingRules
from tests.model.running import IS_SOAK, LONG, QUICK, SHORT, run, run_until
from tests.model.scheduled_rules import ScheduledRules
from tests.model.search_rules import SearchRules
from tests.model.test_state_machine import FleetMachine
from tests.model.time_rules import TimeRules
from tests.support.engine import ENGINES
from tests.support.small_index import shrink_index
from tidings.stores.dynamodb.chat import heads

FILES: Final = ("sent with files", "downloaded", "bytes deleted", "AttachmentGone",
                "AttachmentNotFound", "AttachmentUnknown", "AttachmentUsed")  # fmt: skip
LATER: Final = ("scheduled", "scheduled again", "changed", "cancelled", "sent when due",
                "failed when due", "sent late with files", "ScheduledNotFound",
                "ScheduledTooLate")  # fmt: skip
SEARCHES: Final = ("found", "found a file", "indexed")
SAFETY: Final = ("reported", "reported again", "UserBanned", "report: redact", "report: remove",
                 "report: ban", "redacted, yet reported")  # fmt: skip
EVERYTHING: Final = {*FILES, *LATER, *SEARCHES, *SAFETY}
"""What a run that tests anything has met at least once."""
MAIN: Final = ("sent with files", "sent late with files", "found", "reported")
FLEET: Final = ("sent with files", "sent when due")
SEEDS: Final = (4, 11)
"""Together they meet everything, as long as the rules are the same."""
SHORT_SEEDS: Final = (11,)
FLEET_SEEDS: Final = (1,)
FEW: Final = settings(SHORT, max_examples=6)
FEWER: Final = settings(SHORT, max_examples=5)


class FeatureRules(ScheduledRules, SearchRules, ModerationRules):
    """What users do beside writing: files, searches, scheduled messages and reports."""


class FeatureMachine(FeatureRules, MessageRules, MemberRules, TimeRules, ReadingRules):
    """Users of one tenant, doing all this in between all that can be done with chats."""


class ShortMachine(FeatureMachine):
    """The same, without rules that have nothing to do with it: in short runs, others matter."""

    pin = react = who_reacted = replies_and_pins = page = repeat = None  # type: ignore[assignment]
    repeat_when_its_key_expires = mark_and_mute = mentions = None  # type: ignore[assignment]


class TablesMachine(ShortMachine):
    """The same on tables, where every look at a chat takes some requests to another process."""

    compares_all_every = 1 if IS_SOAK else 5


class FeatureFleetMachine(FeatureRules, FleetMachine):
    """The same users, whose requests go to two processes in turn."""


@pytest.fixture(autouse=True)
def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat is indexed after few entries, in segments of few entries."""
    shrink_index(monkeypatch, 8)


@pytest.fixture(autouse=True)
def swift_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head copies are written at once, not once a second."""
    monkeypatch.setattr(heads, "WRITE_SECONDS_MIN", 0.0)


@pytest.mark.slow
def test_features_are_as_the_reference_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    happened = run_until(EVERYTHING, ShortMachine, engine_of("sqlite"), tmp_path, QUICK, SEEDS)
    assert {what for what in EVERYTHING if not happened[what]} == set()


@pytest.mark.slow
def test_features_are_so_on_dynamodb(engine_of: Callable[[str], Engine], tmp_path: Path) -> None:
    """Fewer steps: each is a few requests to another process."""
    engine = engine_of("dynamodb")
    happened = run_until(MAIN, TablesMachine, engine, tmp_path, FEW, SHORT_SEEDS)
    assert {what for what in MAIN if not happened[what]} == set()


@pytest.mark.slow
def test_features_are_so_in_two_processes(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    engine = engine_of("dynamodb")
    happened = run_until(FLEET, FeatureFleetMachine, engine, tmp_path, FEWER, FLEET_SEEDS)
    assert {what for what in FLEET if not happened[what]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_features_are_as_the_reference_says_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    seeds = (random.randrange(2**32) for _ in range(200))
    run(FeatureMachine, engine_of(engine), tmp_path, LONG, seeds)


@pytest.mark.soak
def test_features_are_so_in_two_processes_for_long(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    seeds = (random.randrange(2**32) for _ in range(50))
    run(FeatureFleetMachine, engine_of("dynamodb"), tmp_path, LONG, seeds)
