# SPDX-License-Identifier: Apache-2.0
"""Generates the list of packages in CONTRIBUTING.md from the import contract.

The contract in pyproject.toml defines which package may import which. The first sentence of each
package describes its purpose. The list therefore cannot lack a package or show a wrong order.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = Path("CONTRIBUTING.md")
_SOURCE: Final = ROOT / "src/tidings"
_BLOCK: Final = re.compile(r"<!-- generated: packages -->\n.*?<!-- end -->", re.DOTALL)


def filled_in(page: str) -> str:
    """Return the page with the list written anew."""
    assert len(_BLOCK.findall(page)) == 1, "the page has one place for the picture"
    fresh = f"<!-- generated: packages -->\n```\n{picture(layers())}\n```\n<!-- end -->"
    return _BLOCK.sub(lambda _: fresh, page)


def layers() -> list[list[str]]:
    """Return the packages in layers, highest layer first, from the contract that names all of
    them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    [contract] = [one for one in contracts if one.get("exhaustive")]
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def picture(layers: list[list[str]]) -> str:
    """Return the list as text: each package with its purpose, and a line between two layers."""
    width = max(len(name) for layer in layers for name in layer)
    return f"\n{'-' * width}\n".join("\n".join(_lines(layer, width)) for layer in layers)


def _lines(layer: list[str], width: int) -> Iterator[str]:
    for name in layer:
        yield f"{name:{width}}  {purpose(name)}"


def purpose(name: str) -> str:
    """Return the first sentence of the docstring of a package or module."""
    folder = _SOURCE / name / "__init__.py"
    path = folder if folder.is_file() else _SOURCE / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path} says what it is for"
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
