# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of verdicts and of push notices in docs/how-to/explain-a-message.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidings.model.explaining import MEANINGS
from tidings.model.push_results import WORDS

PAGE: Final = Path("docs/how-to/explain-a-message.md")
_BLOCK: Final = r"(<!-- generated: {} -->\n).*?(<!-- end -->)"
_FROM_ENTRY: Final = ("own", "not_new", "blocked")
"""Reasons that show in the entry or the verdict, and are not steps of push."""


def filled_in(page: str) -> str:
    """Return the page with its tables written anew."""
    rows = (f"| `{code}` | {meaning} |\n" for code, meaning in MEANINGS.items())
    page = _with_table(page, "verdicts", "| Code | Meaning |\n|---|---|\n" + "".join(rows))
    return _with_table(page, "pushes", "| Step | Sentence |\n|---|---|\n" + "".join(_pushes()))


def _pushes() -> Iterator[str]:
    for result, (step, sentence) in WORDS.items():
        if result not in _FROM_ENTRY:
            name = f"`{step}` `rule {result}`" if step == "push_skipped" else f"`{step}`"
            yield f"| {name} | {sentence.format(place='…', reason='…')} |\n"


def _with_table(page: str, name: str, table: str) -> str:
    block = re.compile(_BLOCK.format(name), re.DOTALL)
    assert block.search(page)
    return block.sub(lambda found: f"{found[1]}{table}{found[2]}", page)
