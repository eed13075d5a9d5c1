# SPDX-License-Identifier: Apache-2.0
"""Runs the server without the code that counts and times: `python -m bench.without_metrics serve`.

Every module is changed when it is imported: statements that only feed a metric are left out. The
metrics of such a server are wrong. It exists to measure what metrics cost.
"""

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

_COUNTERS: Final = {"_FRAMES", "_ENTRIES", "SENT"}
"""Names of counters that are not called `counts`."""
_TIMED: Final = {"timed", "_timed"}
"""Attributes that say which message is being timed."""


class _WithoutMetrics(ast.NodeTransformer):
    """Leaves out what counts and times; `left_out` is the number of statements."""

    def __init__(self) -> None:
        self.left_out = 0

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        counter = node.target.value if isinstance(node.target, ast.Subscript) else None
        is_counter = isinstance(counter, ast.Attribute) and counter.attr == "counts"
        is_counter |= isinstance(counter, ast.Name) and counter.id in _COUNTERS
        return self._unless(is_counter, node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        is_observed = name == "observe" or name.startswith("_OBSERVE")
        return self._unless(is_observed, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        left = [one for one in node.values if not _is_timed(one)]
        return ast.BoolOp(node.op, left) if len(left) > 1 else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return self._unless(_is_timed(node.test) and not node.orelse, node)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        call = node.items[0].context_expr
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "timed":
            self.left_out += 1
            return node.body
        return node

    def _unless(self, is_metric: bool, node: ast.AST) -> ast.AST | None:
        self.left_out += is_metric
        return None if is_metric else node


def _is_timed(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr in _TIMED for one in ast.walk(test))


def without_metrics(source: bytes, path: str) -> tuple[CodeType, int]:
    """Compile a module without its metrics; return it, and the number of statements left out."""
    transformer = _WithoutMetrics()
    tree = transformer.visit(ast.parse(source))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body:
            body.append(ast.Pass())  # what counted was all that a block did
    return compile(ast.fix_missing_locations(tree), path, "exec"), transformer.left_out


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return without_metrics(Path(path).read_bytes(), path)[0]


class _Finder(MetaPathFinder):
    """Finds the modules of the server, except for those of the metrics themselves."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("tidings.") or name.startswith("tidings.metrics"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(name, spec.origin)
        return spec


if __name__ == "__main__":
    sys.meta_path.insert(0, _Finder())
    from tidings.cli import main

    sys.exit(main())
