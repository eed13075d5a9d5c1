# SPDX-License-Identifier: Apache-2.0
"""The table of requirements: whatever it names exists, and what is not met has a reason."""

import ast
import re
from pathlib import Path

import pytest

from scripts.requirements_page import ROOT, VERDICTS, Requirement, subjects

ROWS = [row for _, rows in subjects() for row in rows]
PLACES = sorted({place for row in ROWS for place in row.code})
TESTS = sorted({test for row in ROWS for test in row.tests})


def names_in(path: Path) -> set[str]:
    """Names of the classes, functions and constants of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case _:
                pass
    return found


@pytest.mark.parametrize("place", PLACES)
def test_the_code_exists(place: str) -> None:
    file, _, name = place.partition(":")
    path = ROOT / "src/tidings" / file
    assert path.is_file()
    assert not name or name in names_in(path)


@pytest.mark.parametrize("test", TESTS)
def test_the_tests_exist(test: str) -> None:
    file, _, name = test.partition("::")
    path = ROOT / "tests" / file
    assert path.is_file()
    tests = {one for one in names_in(path) if one.startswith("test_")}
    assert name in tests if name else tests


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
def test_a_requirement_is_one_sentence_with_a_verdict_and_a_reason(row: Requirement) -> None:
    assert re.fullmatch(r"[A-Z].*\.", row.says)
    assert row.verdict in VERDICTS
    assert row.code and row.tests
    assert row.why or row.verdict == "yes", "what is not met as it was asked needs a reason"
    if row.record:
        assert list((ROOT / "docs/decisions").glob(f"{row.record}-*.md"))


def test_nothing_is_asked_twice() -> None:
    sentences = [row.says for row in ROWS]
    assert len(set(sentences)) == len(sentences)
