# SPDX-License-Identifier: Apache-2.0
"""Generates the table of docs/reference/logs.md from the code that logs, and from the declaration.

The code says the name, level, logger and fields of each action, and the declaration what it means.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tidings.logs.declared import ACTIONS, MORE

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = Path("docs/reference/logs.md")
SOURCE: Final = Path("src/tidings")
_BLOCK: Final = re.compile(r"(<!-- generated: actions -->\n).*?(<!-- end -->)", re.DOTALL)
_LEVELS: Final = {
    name: "error" if name == "exception" else name
    for name in ("debug", "info", "warning", "error", "exception", "critical")
}


@dataclass(frozen=True)
class LogCall:
    """A line of code that logs."""

    place: str
    logger: str
    level: str
    action: str | None
    """None if the code does not show it."""
    fields: frozenset[str]
    """Fields besides the action; `MORE` stands for those that the code does not show."""


@cache
def log_calls() -> tuple[LogCall, ...]:
    """Return all lines of the package that log, in the order of the files."""
    files = sorted((ROOT / SOURCE).rglob("*.py"))
    return tuple(call for path in files for call in _calls_in(path))


def _calls_in(path: Path) -> Iterator[LogCall]:
    text = path.read_text()
    if "getLogger" not in text:
        return  # parsing all files would take seconds
    tree = ast.parse(text)
    loggers = dict(_loggers(tree))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for function in functions:
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in loggers
                and node.func.attr in _LEVELS
            ):
                yield LogCall(
                    f"{path.relative_to(ROOT)}:{node.lineno}",
                    loggers[node.func.value.id],
                    _LEVELS[node.func.attr],
                    *_action_and_fields(node, dict(_dicts(function, node.lineno))),
                )


def _loggers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the variables of a module that are loggers, with the names of the loggers."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str(logger))]
                ),
            ):
                yield name, logger
            case _:
                pass


def _dicts(function: ast.AST, line: int) -> Iterator[tuple[str, ast.Dict]]:
    """Yield the variables that are set to a dictionary before a line, the last one last."""
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    for node in sorted(assigned, key=lambda node: node.lineno):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as found):
                if node.lineno <= line:
                    yield name, found
            case _:
                pass


def _action_and_fields(
    call: ast.Call, dicts: Mapping[str, ast.Dict]
) -> tuple[str | None, frozenset[str]]:
    for keyword in call.keywords:
        if keyword.arg == "extra":
            found = dict(_items(keyword.value, dicts))
            action = found.pop("action", None)
            name = action.value if isinstance(action, ast.Constant) else None
            return str(name) if name else None, frozenset(found)
    return None, frozenset()


def _items(
    value: ast.expr | None, dicts: Mapping[str, ast.Dict]
) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(value, ast.Name):
        value = dicts.get(value.id)
    if not isinstance(value, ast.Dict):
        yield MORE, None
        return
    for key, item in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value), item
        else:
            yield from _items(item, dicts)


def filled_in(page: str) -> str:
    """Return the page with its table written anew."""
    assert _BLOCK.search(page)
    return _BLOCK.sub(lambda found: f"{found[1]}{_table()}\n{found[2]}", page)


def _table() -> str:
    by_name: dict[str, list[LogCall]] = {}
    for call in log_calls():
        by_name.setdefault(call.action or "", []).append(call)
    lines = ["| `action` | Level | Logger | Fields | Meaning |", "|---|---|---|---|---|"]
    for name in sorted(ACTIONS):
        calls, action = by_name.get(name, []), ACTIONS[name]
        fields = ", ".join(MORE if field == MORE else f"`{field}`" for field in action.fields)
        cells = (
            f"`{name}`", _all(call.level for call in calls),
            _all(f"`{call.logger}`" for call in calls), fields, action.meaning,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _all(texts: Iterable[str]) -> str:
    return ", ".join(sorted(set(texts)))
