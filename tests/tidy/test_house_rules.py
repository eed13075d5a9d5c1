# SPDX-License-Identifier: Apache-2.0
"""House rules as tests: what a machine does not check is a wish. Each message names the cure."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400

CODE_FOLDERS = {"src", "tests", "clients", "bench", "scripts"}
CODE_SUFFIXES = {".py", ".pyi", ".js", ".css", ".html", ".sh", ".sql"}
SPDX_LINE = "# SPDX-License-Identifier: Apache-2.0"
BANNED_NAMES = {"utils.py", "common.py", "helpers.py", "misc.py", "base.py"}
LOCK_FILES = (
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-audit.lock",
    "requirements-docs.lock",
)

# Put together from parts, so that this file does not break its own rules.
NOTES_TO_SELF = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b"
)
LOCAL_PATHS = re.compile("/" + r"work/|\bshared" + "/")
DATED_REVISION = re.compile(r"(\| |\*\*)\d{4}-\d\d-\d\d")
MARKDOWN_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def listed_files() -> list[Path]:
    """Files that are tracked, or would be after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = sorted({name for name in output.split("\0") if name})
    return [Path(name) for name in names if (ROOT / name).is_file()]


FILES = listed_files()
CODE = [p for p in FILES if p.parts[0] in CODE_FOLDERS and p.suffix in CODE_SUFFIXES]
PYTHON = [p for p in CODE if p.suffix == ".py"]
SOURCE = [p for p in PYTHON if p.parts[0] == "src"]
TESTS = [p for p in PYTHON if "tests" in p.parts]
DECISIONS = [p for p in FILES if p.parent == Path("docs/decisions") and p.suffix == ".md"]


def text_of(path: Path) -> str:
    """The file as text; pictures and the like count as empty."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def nodes_of(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(text_of(path), filename=str(path)))


@dataclass(frozen=True, slots=True)
class Module:
    """What several rules ask about a module, which is parsed once for all of them."""

    has_docstring: bool
    functions: list[tuple[int, str, int]]
    """Each with the number of its first line, its name and its lines without the docstring."""
    classes: list[str]
    names: list[str]
    """Every name that the code gives or uses."""


@cache
def module_of(path: Path) -> Module:
    tree = ast.parse(text_of(path), filename=str(path))
    module = Module(ast.get_docstring(tree) is not None, [], [], [])
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                module.names.append(name)
            case ast.ClassDef(name=name):
                module.names.append(name)
                module.classes.append(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                module.names.append(name)
                module.functions.append((node.lineno, name, lines_without_docstring(node)))
            case _:
                pass
    return module


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def lines_matching(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


def report(cure: str, found: list[str]) -> None:
    if found:
        pytest.fail("\n".join([cure, *found]), pytrace=False)


def test_the_rules_see_the_files() -> None:
    assert Path("src/tidings/__init__.py") in SOURCE
    assert Path("tests/tidy/test_house_rules.py") in TESTS


def test_no_function_outgrows_a_screen() -> None:
    found = [
        f"{path}:{number} {name}: {lines} lines"
        for path in PYTHON
        for number, name, lines in module_of(path).functions
        if lines > FUNCTION_LINES_MAX
    ]
    report(f"Split it: at most {FUNCTION_LINES_MAX} lines. Keep the branches in the parent.", found)


def test_no_file_outgrows_its_subject() -> None:
    sizes = {path: len(text_of(path).splitlines()) for path in CODE}
    found = [f"{path}: {lines} lines" for path, lines in sizes.items() if lines > FILE_LINES_MAX]
    report(f"Split it by noun: at most {FILE_LINES_MAX} lines.", found)


def test_modules_say_their_licence_and_purpose() -> None:
    found = []
    for path in SOURCE:
        if not text_of(path).startswith(SPDX_LINE + "\n"):
            found.append(f"{path}: the first line must be `{SPDX_LINE}`")
        if not module_of(path).has_docstring:
            found.append(f"{path}: add a docstring below it that says what the file is for")
    report("Every module starts with its licence and its purpose.", found)


def test_no_file_is_a_drawer() -> None:
    found = [str(path) for path in FILES if path.name in BANNED_NAMES]
    report("Name the noun (keys.py, retry.py), or keep it beside its one user.", found)


def test_no_notes_to_self() -> None:
    report("Do it now, or leave the note out.", lines_matching(NOTES_TO_SELF, FILES))


def test_no_path_of_one_machine() -> None:
    report("Say it without a path outside this repository.", lines_matching(LOCAL_PATHS, FILES))


@pytest.mark.parametrize("name", LOCK_FILES)
def test_lock_files_name_no_address(name: str) -> None:
    found = lines_matching(re.compile(r"://|--(extra-)?index-url|--find-links"), [Path(name)])
    report("Make it with `make lock`, which leaves addresses out.", found)


def test_decisions_are_complete_and_dated() -> None:
    found = []
    for path in DECISIONS:
        lines = text_of(path).splitlines()
        revisions = lines[lines.index("## Revisions") :] if "## Revisions" in lines else []
        if not any(DATED_REVISION.match(line) for line in revisions):
            found.append(f"{path}: give each revision its date, as 2026-11-15")
        found += [
            f"{path}: add the section `{heading}`"
            for heading in ("## Context", "## Decision", "## Consequences", "## Revisions")
            if heading not in lines
        ]
    report("A decision record has four sections, and says when it was revised.", found)


def test_links_between_pages_lead_somewhere() -> None:
    found = [
        f"{path}: {target}"
        for path in FILES
        if path.suffix == ".md"
        for target in MARKDOWN_LINK.findall(text_of(path))
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    report("Correct the link, or write the page.", found)


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCE:
        for name in module_of(path).classes:
            places.setdefault(name, []).append(str(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice == {}, "Two things with one name: say in the name what tells them apart."


WRITTEN_ONCE = {
    r"^\s+\S+\.popitem\(last=False\)$": ("caches.py", "LruCache"),
    r"\\033\[K|\\x1b\[K": ("cli/terminal.py", "ProgressLine"),
}
"""What has a class, by its mark in the code: the one file that may have it, and the class."""


def test_what_has_a_class_is_not_written_by_hand() -> None:
    found = [
        f"{path}: {name}"
        for path in SOURCE
        for mark, (home, name) in WRITTEN_ONCE.items()
        if path != Path("src/tidings") / home and re.search(mark, text_of(path), re.MULTILINE)
    ]
    report("Use the class that is named.", found)
    for mark, (home, _) in WRITTEN_ONCE.items():
        assert re.search(mark, text_of(Path("src/tidings") / home), re.MULTILINE), home


SLANG = {
    "announcement": "broadcast",
    "desk": "context",
    "doorstep": "target of a handover",
    "entrance": "admission",
    "lane": "queue, or class of calls",
    "neighbours": "remote gateways",
    "parcel": "encoded entry",
    "proposal": "append request",
    "standing": "status of a credential",
    "standings": "status of credentials",
    "together": "say what is combined: bulk, hash tag, merged",
    "upkeep": "registration",
    "vigil": "write lease",
}
"""Words that only this project used for a thing, and the trade's word for it."""


def test_code_uses_the_words_of_the_trade() -> None:
    found = [
        f"{path}: {name} ({SLANG[word]})"
        for path in SOURCE
        for name in module_of(path).names
        for word in re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())
        if word in SLANG
    ]
    assert found == [], "Use the word in brackets."
