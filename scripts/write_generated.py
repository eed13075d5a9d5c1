# SPDX-License-Identifier: Apache-2.0
"""Write what is generated and kept in the repository: deploy/ and the page about the tables."""

from collections.abc import Iterator
from pathlib import Path

from tidings.cli.schema import as_text
from tidings.stores.dynamodb.schema import cloudformation, matrix, terraform

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs/reference/tables.md")


def generated() -> Iterator[tuple[Path, str]]:
    """Every such file, by its path in the repository, as it should be."""
    for name, template in cloudformation.templates().items():
        yield Path("deploy/cloudformation") / name, as_text(template)
    for name, block in terraform.files().items():
        yield Path("deploy/terraform") / name, as_text(block)
    yield PAGE, matrix.filled_in((ROOT / PAGE).read_text())


def main() -> None:
    """Write them all."""
    for path, text in generated():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
        print(path)


if __name__ == "__main__":
    main()
