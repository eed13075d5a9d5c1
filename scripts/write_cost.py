# SPDX-License-Identifier: Apache-2.0
"""Writes the generated parts of the page about cost."""

from pathlib import Path

from scripts.cost_page import filled_in

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/cost.md"


def main() -> None:
    """Write the page."""
    PAGE.write_text(filled_in(PAGE.read_text()))
    print(PAGE.name)


if __name__ == "__main__":
    main()
