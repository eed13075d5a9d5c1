# SPDX-License-Identifier: Apache-2.0
"""Pages use the words of the glossary, and sentences that are read once. Each rule has a cure."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/concepts/words.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")),
    ROOT / "clients/python/README.md",
    ROOT / "deploy/compose/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
CURES = {
    r"anew": "again",
    r"count(s|ed)? no more": "is not valid any more, is refused",
    r"held": "stored, cached, kept open",
    r"letters? (of|between|for)": "message",
    r"likewise": "say it again, or leave it out",
    r"(put|set) aside": "dead letter",
    r"take[ns]? .{0,12}\bback": "redact a message, retract a notification",
    r"told": "reported, informed, or who sends what",
    r"who(so)?ever": "anybody who, or name the person",
    r"sealed": "encrypted",
    r"stands?": "is stored, is in, means",
}
"""Words that are not in the glossary, as patterns, and what to write instead."""
OPENINGS = ("Of", "So", "Who", "Whoever", "Likewise")

_CODE = re.compile(r"`[^`]*`")
_TARGET = re.compile(r"\]\([^)]*\)")
_OPENING = re.compile(rf"(?:^|[.:!?|] +|\*\* )(?:- |\d+\. )?({'|'.join(OPENINGS)})\b(?!-)")
_WORDS = re.compile("|".join(rf"\b(?:{word})\b" for word in CURES), re.IGNORECASE)


def sentences(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page that people read as prose, without code and addresses."""
    is_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, _TARGET.sub("]", _CODE.sub("``", line))


def cure_of(word: str) -> str:
    return next(cure for known, cure in CURES.items() if re.fullmatch(known, word, re.IGNORECASE))


def test_the_rules_find_what_they_are_for() -> None:
    assert _OPENING.search("It is full. So it waits.")
    assert _OPENING.search("- Who asks is answered.")
    assert not _OPENING.search("Users, so to speak. Some wait.")
    assert cure_of(_WORDS.search("nothing that was Told")[0]) == CURES["told"]  # type: ignore[index]
    assert cure_of(_WORDS.search("it was taken back")[0])  # type: ignore[index]
    assert not _WORDS.search("take the last one, and go back")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_written_in_plain_words(page: Path) -> None:
    found = [
        f"{number}: a sentence that starts with {match[1]!r}: name who does what"
        for number, line in sentences(page)
        for match in _OPENING.finditer(line)
    ]
    if page != GLOSSARY:  # it names the words that are avoided
        found += [
            f"{number}: {match[0]!r}: {cure_of(match[0])}"
            for number, line in sentences(page)
            for match in _WORDS.finditer(line)
        ]
    assert not found, "\n".join([str(page.relative_to(ROOT)), *found])
