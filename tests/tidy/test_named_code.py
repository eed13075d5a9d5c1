# SPDX-License-Identifier: Apache-2.0
"""Documentation names code that exists: a renamed file or function must be renamed there too."""

import ast
import re
from pathlib import Path

import pytest

from tidings.cli.environment import TENANT_KEY
from tidings.config.loading import PREFIX, SECRETS
from tidings.config.values import PARSE

ROOT = Path(__file__).resolve().parents[2]
FOLLOW = ROOT / "docs/concepts/follow-one-message.md"
README = ROOT / "README.md"
GUARANTEES = ROOT / "docs/operations/guarantees.md"

# A step: the link to a file, then the function in it, in the next cell or in the sentence before.
STEP = re.compile(r"\]\(([^)]+\.py)\) \| `([\w.]+)`")
MENTION = re.compile(r"`(\w+\.\w+)` in \[`[^`]+`\]\(([^)]+\.py)\)")
TEST = re.compile(r"`(?:(\w+(?:/\w+)*)/)?(test_\w+)`")


def steps() -> list[tuple[str, str]]:
    """Each file that the page names, with the function named beside it."""
    text = FOLLOW.read_text(encoding="utf-8")
    mentions = [(path, function) for function, path in MENTION.findall(text)]
    return [*STEP.findall(text), *mentions]


def functions_of(path: Path) -> set[str]:
    """All functions and methods of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def test_the_page_names_every_step() -> None:
    numbers = re.findall(r"^\| (D?\d+) \|", FOLLOW.read_text(encoding="utf-8"), re.MULTILINE)
    assert numbers == [*map(str, range(1, 23)), *(f"D{n}" for n in range(1, 12))]
    assert len(steps()) >= len(numbers), "every step names a file and a function"


@pytest.mark.parametrize(("link", "function"), steps())
def test_a_step_names_a_function_that_exists(link: str, function: str) -> None:
    path = (FOLLOW.parent / link).resolve()
    assert path.is_file(), f"{link} has moved: name its new place in {FOLLOW.name}"
    assert function in functions_of(path), f"{link} has no {function}: correct {FOLLOW.name}"


def test_the_readme_names_files_and_names_to_change() -> None:
    rows = [row for row in README.read_text(encoding="utf-8").splitlines() if "(src/" in row]
    assert rows, "the table of files to change is in the README"
    for row in rows:
        paths = [ROOT / link for link in re.findall(r"\((src/[^)]+)\)", row)]
        code = "".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`(\w+)`", row.rsplit(" | ", 1)[1]):
            assert re.search(rf"\b{name}\b", code), f"{name} has moved: correct the table in {row}"


def test_guarantees_name_tests_that_exist() -> None:
    names = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    missing = []
    for folder, name in TEST.findall(GUARANTEES.read_text(encoding="utf-8")):
        is_there = (
            name in names if not folder else (ROOT / "tests" / folder / f"{name}.py").exists()
        )
        if not is_there:
            missing.append(f"{folder}/{name}".removeprefix("/"))
    assert not missing, f"correct {GUARANTEES.name}: {', '.join(missing)}"


def test_pages_name_test_files_that_exist() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    missing = [
        f"{page.name}: {path}"
        for page in pages
        for path in re.findall(r"\btests/[\w/]+\.py", page.read_text(encoding="utf-8"))
        if not (ROOT / path).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_examples_define_no_variables_that_the_server_would_take_for_mistakes() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in PARSE} | {TENANT_KEY}
    known |= {f"{PREFIX}{name}_file".upper() for name in SECRETS}
    for path in (ROOT / "examples").rglob("*.*"):
        if path.suffix in {".md", ".py", ".js"} and "node_modules" not in path.parts:
            named = set(re.findall(rf"{PREFIX}\w+", path.read_text(encoding="utf-8")))
            assert named <= known, f"{path} needs names without {PREFIX}"
