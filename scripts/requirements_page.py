# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of docs/reference/requirements.md from requirements.toml."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = Path("docs/reference/requirements.md")
SOURCE: Final = Path(__file__).with_name("requirements.toml")
BEGINS: Final = "<!-- generated: requirements -->"
ENDS: Final = "<!-- end -->"
VERDICTS: Final = ("yes", "another way", "no")

_RECORD: Final = re.compile(r"(\d{4}): ")


class Requirement(NamedTuple):
    """A requirement, with the code that meets it and the tests that prove it."""

    says: str
    verdict: str
    why: str
    code: tuple[str, ...]
    """Files below src/tidings, optionally with a name in the file: `model/ids.py:message_id`."""
    tests: tuple[str, ...]
    """Files below tests, optionally with the name of a test: `unit/test_vault.py::test_...`."""

    @property
    def record(self) -> str | None:
        """Number of the decision record that gives the reason; None if there is none."""
        found = _RECORD.match(self.why)
        return found[1] if found else None


def subjects() -> Iterator[tuple[str, list[Requirement]]]:
    """Return each subject with its requirements, in the order of the page."""
    for subject in tomllib.loads(SOURCE.read_text())["subject"]:
        rows = subject["rows"]
        yield (
            subject["name"],
            [
                Requirement(says, verdict, why, tuple(code), tuple(tests))
                for says, verdict, why, code, tests in rows
            ],
        )


def filled_in(page: str) -> str:
    """Return the page with its generated part written anew."""
    before, begins, rest = page.partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    assert begins and ends, "the page must have the generated part"
    return f"{before}{begins}\n{_tables()}\n{ends}{after}"


def _tables() -> str:
    everything = dict(subjects())
    counts = Counter(row.verdict for rows in everything.values() for row in rows)
    parts = [
        f"{sum(counts.values())} requirements: {counts['yes']} are met, {counts['another way']} "
        f"are met in another way, {counts['no']} are not met."
    ]
    for name, rows in everything.items():
        parts.append(f"## {name}\n\n| Requirement | Met | Code | Tests |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n{_row(row)}" for row in rows)
    return "\n\n".join(parts)


def _row(row: Requirement) -> str:
    met = f"{row.verdict}: {_reason(row)}" if row.why else row.verdict
    code = ", ".join(f"`{place}`" for place in row.code)
    return f"| {row.says} | {met} | {code} | {', '.join(f'`{test}`' for test in row.tests)} |"


def _reason(row: Requirement) -> str:
    if row.record is None:
        return row.why
    (file,) = (ROOT / "docs/decisions").glob(f"{row.record}-*.md")
    text = _RECORD.sub("", row.why)
    return f"{text} ([{row.record}](../decisions/{file.name}))"
