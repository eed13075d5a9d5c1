# SPDX-License-Identifier: Apache-2.0
"""Writes all generated files that are in the repository: deploy/, and parts of pages."""

from collections.abc import Iterator
from pathlib import Path

from scripts import (
    command_line_page,
    logs_page,
    metrics_page,
    package_picture,
    requirements_page,
    tables_page,
    verdicts_page,
)
from scripts import cost_page as cost_page
from scripts.observability import dashboard, rules
from tidings.cli.schema import as_text
from tidings.stores.dynamodb.schema import cloudformation, terraform

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs/reference/tables.md")
COST = Path("docs/reference/cost.md")


def generated() -> Iterator[tuple[Path, str]]:
    """Yield the path and the generated content of each file."""
    for name, template in cloudformation.templates().items():
        yield Path("deploy/cloudformation") / name, as_text(template)
    for name, block in terraform.files().items():
        yield Path("deploy/terraform") / name, as_text(block)
    yield rules.RULES, rules.rules()
    yield dashboard.DASHBOARD, dashboard.dashboard()
    for path, filled_in in (
        (PAGE, tables_page.filled_in),
        (COST, cost_page.filled_in),
        (command_line_page.PAGE, command_line_page.filled_in),
        (logs_page.PAGE, logs_page.filled_in),
        (metrics_page.PAGE, metrics_page.filled_in),
        (rules.PAGE, rules.filled_in),
        (package_picture.PAGE, package_picture.filled_in),
        (requirements_page.PAGE, requirements_page.filled_in),
        (verdicts_page.PAGE, verdicts_page.filled_in),
    ):
        yield path, filled_in((ROOT / path).read_text())


def main() -> None:
    """Write all files."""
    for path, text in generated():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
        print(path)


if __name__ == "__main__":
    main()
