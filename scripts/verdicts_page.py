# SPDX-License-Identifier: Apache-2.0
"""Writes the table of verdicts in docs/how-to/explain-a-message.md."""

import re
from pathlib import Path
from typing import Final

from tidings.model.explaining import MEANINGS

PAGE: Final = Path("docs/how-to/explain-a-message.md")
_BLOCK: Final = re.compile(r"(<!-- generated: verdicts -->\n).*?(<!-- end -->)", re.DOTALL)


def filled_in(page: str) -> str:
    """Return the page with its table written anew."""
    assert _BLOCK.search(page)
    rows = (f"| `{code}` | {meaning} |\n" for code, meaning in MEANINGS.items())
    table = "| Code | Meaning |\n|---|---|\n" + "".join(rows)
    return _BLOCK.sub(lambda found: f"{found[1]}{table}{found[2]}", page)
