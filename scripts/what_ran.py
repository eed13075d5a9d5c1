# SPDX-License-Identifier: Apache-2.0
"""Prints a summary of a test run, one line per folder, from pytest's JUnit file."""

import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path


def folder_of(case: ET.Element) -> str:
    """Return the folder of a test: `tests/unit` for `tests.unit.test_post` and for its classes."""
    parts = case.get("classname", "").split(".")
    folders = [p for p in parts if not p.startswith(("test_", "Test"))]
    return "/".join(folders[:2]) or "?"


def outcome_of(case: ET.Element) -> str:
    for child in case:
        if child.tag in {"failure", "error"}:
            return "failed"
        if child.tag == "skipped":
            return "skipped"
    return "passed"


def main(report: Path) -> None:
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):
        folder = folder_of(case)
        outcomes[folder][outcome_of(case)] += 1
        seconds[folder] += float(case.get("time", "0"))
    print(f"{'What ran':<24}{'passed':>8}{'skipped':>9}{'failed':>8}{'seconds':>9}")
    for folder, count in sorted(outcomes.items()):
        print(
            f"{folder:<24}{count['passed']:>8}{count['skipped']:>9}{count['failed']:>8}"
            f"{seconds[folder]:>9.1f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
