# SPDX-License-Identifier: Apache-2.0
"""Prepares ES modules for browsers: joins a module with its imports, and strips comments.

Only the forms that our own modules use are known: named imports and exports of constants, functions
and classes, and no circle of imports. Any other form raises `ModuleError`, which a test reports
before a browser could.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_MARK: Final = re.compile(r"//|/\*|[/'\"`{}]")
_STRINGS: Final = {
    "'": re.compile(r"'(?:[^'\\\n]|\\.)*'", re.S),
    '"': re.compile(r'"(?:[^"\\\n]|\\.)*"', re.S),
}
_TEMPLATE: Final = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.S)
_REGEX: Final = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_OPERAND: Final = re.compile(r"(?:([\w$]+)|[\])}])\s*\Z")
"""The end of a text after which a slash divides, unless the last word is one of the following."""
_BEFORE_OPERAND: Final = frozenset(
    "await case delete do else in instanceof new of return throw typeof void yield".split()
)
_LINE_EDGES: Final = re.compile(r"[ \t]*\n[ \t\n]*")

_IMPORT: Final = re.compile(
    r'^import(?: ?(?:\{([^}]*)\}|\* as (\w+)) from)? ?"([^"]+)";$', re.MULTILINE
)
_REEXPORT: Final = re.compile(r'^export \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export \{([^}]*)\};$", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:async )?(?:const|class|function\*?) (\w+))", re.MULTILINE
)
_UNKNOWN: Final = re.compile(r"^(?:import(?![\w$(.])|export\b).*$", re.MULTILINE)


class ModuleError(Exception):
    """A module has a form that is not known here."""


def strip(source: str) -> str:
    """Return a script without comments, indentation and empty lines.

    Lines stay lines, so that no statement depends on where a semicolon would be inserted.
    """
    code: list[str] = []
    """Parts of the result. Those with an even index are code, the others literals."""
    piece, position, depths = "", 0, [0]
    while found := _MARK.search(source, position):
        piece += source[position : found.start()]
        position, mark = found.end(), found.group()
        literal = ""
        match mark:
            case "//":
                end = source.find("\n", position)
                position = len(source) if end < 0 else end
            case "/*":
                position = _end_of_comment(source, position)
            case "{":
                piece, depths[-1] = piece + mark, depths[-1] + 1
            case "}" if depths[-1] > 0:
                piece, depths[-1] = piece + mark, depths[-1] - 1
            case "/" if not _follows_operand(piece):
                literal = _matched(_REGEX, source, found.start())
            case "/":
                piece += mark
            case "'" | '"':
                literal = _matched(_STRINGS[mark], source, found.start())
            case _:  # a template begins, or goes on after an expression
                if mark == "}" and len(depths) == 1:
                    raise ModuleError(f"unexpected }} at {found.start()}")
                if mark == "}":
                    depths.pop()
                literal = mark + _matched(_TEMPLATE, source, position)
                if literal.endswith("${"):
                    depths.append(0)
        if literal:
            code += (piece, literal)
            piece, position = "", found.start() + len(literal)
    code.append(piece + source[position:])
    return _without_indentation(code)


def _end_of_comment(source: str, position: int) -> int:
    end = source.find("*/", position)
    if end < 0:
        raise ModuleError("a comment has no end")
    return end + 2


def _matched(pattern: re.Pattern[str], source: str, position: int) -> str:
    found = pattern.match(source, position)
    if found is None:
        raise ModuleError(f"a literal has no end: {source[position : position + 40]!r}")
    return found.group()


def _follows_operand(piece: str) -> bool:
    """Return whether a slash after this code divides; otherwise it begins a regular expression."""
    found = _OPERAND.search(piece[-80:])
    return found is not None and found.group(1) not in _BEFORE_OPERAND


def _without_indentation(parts: list[str]) -> str:
    for index in range(0, len(parts), 2):
        parts[index] = _LINE_EDGES.sub("\n", parts[index])
    return "".join(parts).strip() + "\n"


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Return the module `entry` joined with all modules that it imports.

    `sources` are the modules by path. The result exports what the entry exports. Each other module
    becomes the call of a function that returns its exports, after the modules that it imports.

    Raises:
        ModuleError: A module is missing, imports itself, or has an unknown form.
    """
    return _Bundle(sources).of(entry)


class _Bundle:
    """The modules of one bundle, in the order in which they run."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._names: dict[str, str | None] = {}
        """The variable that has the exports of a module; None while its imports are read."""
        self._parts: list[str] = []

    def of(self, entry: str) -> str:
        code, exports = self._read(entry)
        names = ", ".join(f"{local} as {name}" for name, local in exports.items())
        end = f"export {{ {names} }};\n" if exports else ""
        return "".join([*self._parts, code, end])

    def _require(self, path: str) -> str:
        if path in self._names:
            name = self._names[path]
            if name is None:
                raise ModuleError(f"{path} imports itself")
            return name
        self._names[path] = None
        code, exports = self._read(path)
        name = self._names[path] = f"m{len(self._parts)}_"
        returned = ", ".join(f"{name}: {local}" for name, local in exports.items())
        self._parts.append(f"const {name} = (() => {{\n{code}return {{ {returned} }};\n}})();\n")
        return name

    def _read(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the code of a module without its imports and exports, and what it exports."""
        if path not in self._sources:
            raise ModuleError(f"there is no module {path}")
        exports: dict[str, str] = {}

        def import_names(found: re.Match[str]) -> str:
            names, whole, target = found.groups()
            module = self._require(_beside(path, target))
            if whole:
                return f"const {whole} = {module};"
            return _unpacked(_pairs(names), module) if names else ""

        def export_again(found: re.Match[str]) -> str:
            pairs = _pairs(found.group(1))
            exports.update((alias, alias) for _, alias in pairs)
            return _unpacked(pairs, self._require(_beside(path, found.group(2))))

        def export_list(found: re.Match[str]) -> str:
            exports.update((alias, name) for name, alias in _pairs(found.group(1)))
            return ""

        def export_one(found: re.Match[str]) -> str:
            exports[found.group(1)] = found.group(1)
            return ""

        code = strip(self._sources[path])
        for pattern, replace in (
            (_IMPORT, import_names),
            (_REEXPORT, export_again),
            (_EXPORT_LIST, export_list),
            (_EXPORT, export_one),
        ):
            code = pattern.sub(replace, code)
        if unknown := _UNKNOWN.search(code):
            raise ModuleError(f"{path}: {unknown.group()}")
        return code, exports


def _beside(path: str, target: str) -> str:
    if not target.startswith("."):
        raise ModuleError(f"{path} imports {target}, which is not a file of ours")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _pairs(names: str) -> list[tuple[str, str]]:
    """Return (name, alias) for each of the names in braces."""
    pairs = []
    for item in filter(None, (item.strip() for item in names.split(","))):
        name, _, alias = item.partition(" as ")
        pairs.append((name, alias or name))
    return pairs


def _unpacked(pairs: list[tuple[str, str]], module: str) -> str:
    names = ", ".join(f"{name}: {alias}" if name != alias else name for name, alias in pairs)
    return f"const {{ {names} }} = {module};"
