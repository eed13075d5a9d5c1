# SPDX-License-Identifier: Apache-2.0
"""The page about attacks, made from the catalogue: `python -m tests.attacks.page` writes it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.attacks.catalogue import ATTACKS, NOT_SHOWN_YET
from tests.attacks.not_applicable import NOT_APPLICABLE

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "operations" / "attacks.md"
TESTED: Final = "passed"
OPEN: Final = "not shown yet"
KINDS: Final[Mapping[str, str]] = {
    "A": "Tokens and sessions",
    "B": "Logging in by phone",
    "C": "The socket",
    "D": "Objects, membership, tenants",
    "E": "Payloads and the data model",
    "F": "Floods",
    "W": "Outgoing requests",
    "H": "Infrastructure",
    "S": "Found by a review",
}

_START: Final = "<!-- generated: python -m tests.attacks.page -->\n"
_END: Final = "<!-- end -->"


def filled_in(page: str) -> str:
    """The page with its tables made anew."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}{''.join(_tables())}{_END}{after}"


def _tables() -> Iterator[str]:
    for kind, title in KINDS.items():
        yield f"\n## {title}\n\n| | Attack | |\n|---|---|---|\n"
        for one, attack in ATTACKS.items():
            if one.startswith(kind):
                yield f"| {one} | {attack} | {_answer(one)} |\n"
    yield "\n"


def _answer(one: str) -> str:
    if one in NOT_APPLICABLE:
        return f"not applicable. {NOT_APPLICABLE[one]}"
    return OPEN if one in NOT_SHOWN_YET else TESTED


if __name__ == "__main__":
    PAGE.write_text(filled_in(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
