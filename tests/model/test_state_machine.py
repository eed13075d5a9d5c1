# SPDX-License-Identifier: Apache-2.0
"""Whatever users do in whatever order, the product does what a small reference says."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, get_args

import pytest
from hypothesis import settings

from tests.model.member_rules import MemberRules
from tests.model.message_rules import MessageRules
from tests.model.product import Engine
from tests.model.reading_rules import ReadingRules
from tests.model.running import IS_SOAK, LONG, QUICK, SHORT, run
from tests.model.time_rules import TimeRules
from tests.support.engine import ENGINES
from tidings.model.entries import Kind

EVERYTHING: Final = {
    *get_args(Kind),
    *("repeat", "expired", "read mark moved by itself", "heir", "emptied group"),
    *("marked unread", "mark ended", "time of reading", "Invalid"),
    *("ChatNotFound", "MessageNotFound", "MemberNotFound", "UserNotFound", "Forbidden"),
    *("SendConflict", "MessageGone", "DirectChatFixed", "LastOwner", "ReceiptBeyondHead"),
}
"""What a run that tests anything has met at least once."""
SEEDS: Final = 2
SEEDS_MAX: Final = 16
"""What a seed leads to changes with the code: if the first have not met everything, more follow."""


class ChatMachine(MessageRules, MemberRules, TimeRules, ReadingRules):
    """Users of one tenant, doing everything that can be done with chats."""


def run_until(
    wanted: Iterable[str], engine: Engine, folder: Path, how: settings, seeds: int
) -> Counter[str]:
    """Run from a few seeds, and from further ones until all that is wanted has happened."""
    happened: Counter[str] = Counter()
    for number in range(SEEDS_MAX):
        if number >= seeds and all(happened[what] for what in wanted):
            break
        happened += run(ChatMachine, engine, folder / f"seed-{number}", how, [number])
    return happened


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_SOAK else 300)
def test_the_product_does_what_the_reference_says(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    happened = run_until(EVERYTHING, engine_of("sqlite"), tmp_path, QUICK, seeds=SEEDS)
    assert {what for what in EVERYTHING if not happened[what]} == set()


@pytest.mark.slow
@pytest.mark.timeout(0 if IS_SOAK else 300)
def test_the_product_does_so_on_dynamodb(
    engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    """Fewer steps: each is a few requests to another process."""
    happened = run_until(get_args(Kind), engine_of("dynamodb"), tmp_path, SHORT, seeds=1)
    assert {kind for kind in get_args(Kind) if not happened[kind]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_the_product_does_what_the_reference_says_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    run(
        ChatMachine,
        engine_of(engine),
        tmp_path,
        LONG,
        (random.randrange(2**32) for _ in range(200)),
    )
