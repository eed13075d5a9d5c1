# SPDX-License-Identifier: Apache-2.0
"""How state machines are run: how long, from which seeds, and counting what happened."""

import itertools
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.model.product import Engine

IS_SOAK: Final = bool(os.environ.get("SOAK"))
QUICK: Final = settings(
    max_examples=10,  # beyond ten Hypothesis mostly varies what it has: more seeds give more
    stateful_step_count=50,
    # What fails is made smaller only if there is time: with SOAK=1.
    phases=tuple(Phase) if IS_SOAK else (Phase.generate,),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
# The first three runs of each seed do the simplest there is: ten short ones from one seed find more
# planted bugs than four long ones each from four seeds, in a third of the time.
SHORT: Final = settings(QUICK, stateful_step_count=20)
LONG: Final = settings(QUICK, stateful_step_count=200)
SEEDS_MAX: Final = 16
"""What a seed leads to changes with the rules: if the first miss something, more follow."""

# Hypothesis also draws constants of all modules that are imported, which differ with the tests that
# run together and with every change of the code. Without them a seed leads to the same everywhere.
_without_constants = patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None)


def run(
    kind: type[RuleBasedStateMachine],
    engine: Engine,
    folder: Path,
    how: settings,
    seeds: Iterable[int],
) -> Counter[str]:
    """Run from each seed, each run in a folder of its own; returns how often what happened.

    A machine of this kind is made from an engine, a folder, and where it counts what happened.
    """
    runs = itertools.count()
    happened: Counter[str] = Counter()
    for number in seeds:

        @seed(number)
        class Machine(kind):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                super().__init__(engine, folder / f"run-{next(runs)}", happened)

        with _without_constants:
            run_state_machine_as_test(Machine, settings=how)
    return happened


def run_until(
    wanted: Iterable[str],
    kind: type[RuleBasedStateMachine],
    engine: Engine,
    folder: Path,
    how: settings,
    seeds: Iterable[int] = (0,),
) -> Counter[str]:
    """Run from these seeds, and from further ones until all that is wanted has happened."""
    happened: Counter[str] = Counter()
    first = tuple(seeds)
    for number in dict.fromkeys([*first, *range(SEEDS_MAX)]):
        if number not in first and all(happened[what] for what in wanted):
            break
        happened += run(kind, engine, folder / f"seed-{number}", how, [number])
    return happened
