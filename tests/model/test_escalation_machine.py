# SPDX-License-Identifier: Apache-2.0
"""Whatever is posted, read, archived and retracted, those get an e-mail who should."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.model.inbox_escalation import EscalationRules
from tests.model.product import Engine
from tests.model.running import LONG, SHORT, run, run_until
from tests.model.test_inbox_machine import InboxMachine
from tests.support.engine import ENGINES

WANTED: Final = ("with an escalation", "escalated", "read before it was escalated")
SEEDS: Final = (7,)
"""It meets all of this, as long as the rules are the same."""


class EscalationMachine(EscalationRules, InboxMachine):
    """The users of the two inboxes, some of whom have an address."""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_those_get_an_email_who_should(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    wanted = WANTED if engine == "sqlite" else WANTED[:1]
    happened = run_until(wanted, EscalationMachine, engine_of(engine), tmp_path, SHORT, SEEDS)
    assert {what for what in wanted if not happened[what]} == set()


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_those_get_an_email_who_should_for_long(
    engine_of: Callable[[str], Engine], engine: str, tmp_path: Path
) -> None:
    seeds = (random.randrange(2**32) for _ in range(50))
    run(EscalationMachine, engine_of(engine), tmp_path, LONG, seeds)
