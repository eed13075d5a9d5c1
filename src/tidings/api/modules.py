# SPDX-License-Identifier: Apache-2.0
"""Prepares ES modules for browsers: joins a module with its imports, and strips comments.

Only the syntax of our own modules is supported: named imports and exports of constants, functions
and classes, without circular imports. Anything else raises `ModuleError`, which a test detects
before a release.
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
# Not with a possessive repeat of alternatives: up to Python 3.11.4 it misses matches.
_TEMPLATE: Final = re.compile(r"[`}][^`\\$]*(?:(?:\\.|\$(?!\{))[^`\\$]*)*(?:`|\$\{)", re.S)
_REGEX: Final = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_OPERAND: Final = re.compile(r"((?:\.\s*)?[\w$]+|[\])}])\s*\Z")
"""Pattern for code after which a slash means a division, unless the code ends with one of the words
below."""
_LOOK_BACK: Final = 80
_BEFORE_OPERAND: Final = frozenset(
    "await case delete do else in instanceof new of return throw typeof void yield".split()
)
_LINE_EDGES: Final = re.compile(r"[ \t]*\n[ \t\n]*")
_SPACED_MARK: Final = re.compile(r" *(=>|[{}()\[\];,:?=&|]) *")
"""Punctuation that means the same with and without spaces around it, unlike `+` and `<`."""
_AFTER_OPENING: Final = re.compile(r"([{(\[,])\n")
_BEFORE_CLOSING: Final = re.compile(r"(?<![,\[]),?\n([)\]}])")
"""Where a line break, and a comma before it, means nothing. After a hole in an array, it does."""
_LAST_SEMICOLON: Final = re.compile(r";(})")
"""A block needs none at its end, unless that is an empty statement, as in `while (next());`: our
modules have none, and one would be a syntax error, which no page survives unseen."""

_IMPORT: Final = re.compile(
    r'^import ?(?:(?:\{([^}]*)\}|\* as (\w+)) ?from ?)?"([^"]+)";$', re.MULTILINE
)
_REEXPORT: Final = re.compile(r'^export ?\{([^}]*)\} ?from ?"([^"]+)";$', re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"^export ?\{([^}]*)\};$", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:async )?(?:const|class|function\*?) (\w+))", re.MULTILINE
)
_UNKNOWN: Final = re.compile(r"^(?:import(?![\w$(.])|export\b).*$", re.MULTILINE)


class ModuleError(Exception):
    """A module uses syntax that is not supported here."""


def strip(source: str) -> str:
    """Return a script without comments, indentation, empty lines and most spaces.

    Line breaks between statements are kept, because JavaScript may insert a semicolon there.

    Raises:
        ModuleError: A comment, string or template has no end.
    """
    return _Script(source).stripped()


class _Script:
    """Reads a script once, from its start to its end."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._code = ""
        """The code after the last literal."""
        self._parts: list[str] = []
        """Code and literals in turn. A literal is a string, a regular expression, or a part of a
        template."""
        self._depths = [0]
        """The number of open braces, in the script and in each open expression of a template."""

    def stripped(self) -> str:
        while found := _MARK.search(self._source, self._position):
            self._code += self._source[self._position : found.start()]
            self._position = found.end()
            self._take(found.group(), found.start())
        if len(self._depths) > 1:
            raise ModuleError("a template has no end")
        self._end_code(self._source[self._position :])
        return "".join(self._parts).strip() + "\n"

    def _take(self, mark: str, start: int) -> None:
        match mark:
            case "//":
                end = self._source.find("\n", start)
                self._position = len(self._source) if end < 0 else end
            case "/*":
                self._skip_comment()
            case "/" if not self._follows_operand():
                self._take_literal(_REGEX, start)
            case "'" | '"':
                self._take_literal(_STRINGS[mark], start)
            case "`":
                self._take_template(start)
            case "}" if not self._depths[-1] and len(self._depths) > 1:
                self._depths.pop()
                self._take_template(start)
            case _:
                self._depths[-1] += {"{": 1, "}": -1}.get(mark, 0)
                self._code += mark

    def _skip_comment(self) -> None:
        end = self._source.find("*/", self._position)
        if end < 0:
            raise ModuleError("a comment has no end")
        # A comment separates words, and one of several lines separates statements, too.
        self._code += "\n" if "\n" in self._source[self._position : end] else " "
        self._position = end + len("*/")

    def _follows_operand(self) -> bool:
        """Return True if a slash means a division here, False if it begins a regular
        expression."""
        if not self._code.strip() and self._parts:
            return not self._parts[-1].endswith("${")
        found = _OPERAND.search(self._code[-_LOOK_BACK:])
        return found is not None and found.group(1) not in _BEFORE_OPERAND

    def _take_template(self, start: int) -> None:
        """Read a template up to its end or to its next expression. `start` is where the template
        begins, or where its last expression ended."""
        self._take_literal(_TEMPLATE, start)
        if self._parts[-1].endswith("${"):
            self._depths.append(0)

    def _take_literal(self, pattern: re.Pattern[str], start: int) -> None:
        found = pattern.match(self._source, start)
        if found is None:
            raise ModuleError(f"no end: {self._source[start : start + _LOOK_BACK]!r}")
        self._end_code()
        self._parts.append(found.group())
        self._position = found.end()

    def _end_code(self, more: str = "") -> None:
        code = _LINE_EDGES.sub("\n", self._code + more)
        for pattern in (_SPACED_MARK, _BEFORE_CLOSING, _AFTER_OPENING, _LAST_SEMICOLON):
            code = pattern.sub(r"\1", code)
        self._parts.append(code)
        self._code = ""


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Return the module `entry` joined with all modules that it imports.

    `sources` are the modules by path. The result exports what the entry exports. Every other module
    becomes a function that is called at once and returns the module's exports. The modules that it
    imports come before it.

    Raises:
        ModuleError: A module is missing, imports itself, or has an unknown form.
    """
    return _Bundle(sources).of(entry)


class _Bundle:
    """Collects the modules of one bundle, in the order in which they run."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._names: dict[str, str | None] = {}
        """The variable that has the exports of a module; None while its imports are read."""
        self._parts: list[str] = []

    def of(self, entry: str) -> str:
        code, exports = self._read(entry)
        pairs = [(local, name) for name, local in exports.items()]
        end = f"export{_braced(pairs, ' as ')};\n" if exports else ""
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
        returned = _braced(list(exports.items()), ":")
        self._parts.append(f"const {name}=(()=>{{\n{code}return{returned};\n}})();\n")
        return name

    def _read(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the code of a module without its imports and exports, and the names that it
        exports."""
        if path not in self._sources:
            raise ModuleError(f"there is no module {path}")
        exports: dict[str, str] = {}

        def import_names(found: re.Match[str]) -> str:
            names, whole, target = found.groups()
            module = self._require(_beside(path, target))
            if whole:
                return f"const {whole}={module};"
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
    return f"const{_braced(pairs, ':')}={module};"


def _braced(pairs: list[tuple[str, str]], separator: str) -> str:
    """Return the pairs in braces; of a pair of equal names only one."""
    items = (f"{left}{separator}{right}" if left != right else left for left, right in pairs)
    return f"{{{','.join(items)}}}"
