# SPDX-License-Identifier: Apache-2.0
"""Every attack has its tests, or a reason why it has none: read from the marks in the files."""

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from tests.attacks.catalogue import ATTACKS, NOT_SHOWN_YET
from tests.attacks.not_applicable import NOT_APPLICABLE
from tests.attacks.page import OPEN, PAGE, TESTED, filled_in
from tests.attacks.report import MARKER

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = (ROOT / "tests", ROOT / "clients" / "python" / "tests")


@cache
def marked() -> dict[str, list[str]]:
    """The ids that tests are marked with, and where."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted(folder.rglob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            if f".{MARKER}(" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                for one in ids_of(node):
                    found[one].append(f"{path.relative_to(ROOT)}:{node.lineno}")  # type: ignore[attr-defined]
    return found


def ids_of(node: ast.AST) -> list[str]:
    """The arguments of `pytest.mark.attack(…)`; nothing for all else."""
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr=attr
            )
        ) if attr == MARKER:
            return [ast.literal_eval(one) for one in node.args]
        case _:
            return []


def test_every_attack_has_a_test_or_a_reason() -> None:
    missing = ATTACKS.keys() - marked().keys() - NOT_APPLICABLE.keys()
    assert sorted(missing) == sorted(NOT_SHOWN_YET)


def test_nothing_is_both_tested_and_not_applicable() -> None:
    both = {one: marked()[one] for one in NOT_APPLICABLE if one in marked()}
    assert both == {}


def test_marks_and_reasons_name_attacks_that_there_are() -> None:
    unknown = (marked().keys() | NOT_APPLICABLE.keys()) - ATTACKS.keys()
    assert sorted(unknown) == []
    sizes = Counter(one[0] for one in ATTACKS)
    assert "".join(f"{kind}{sizes[kind]} " for kind in "ABCDEFWHS") == (
        "A20 B9 C19 D24 E19 F14 W9 H14 S29 "
    )
    assert all(reason.endswith(".") for reason in NOT_APPLICABLE.values())


def test_the_page_says_what_the_catalogue_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    made, cure = filled_in(page), "run: python -m tests.attacks.page"
    # What a test was written for since may still stand there as open, until nothing is open.
    assert page.replace(OPEN, TESTED) == made.replace(OPEN, TESTED), cure
    assert NOT_SHOWN_YET or OPEN not in page, cure
