"""Functions with arguments that are fixed before they are compiled."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any


def specialise(function: Callable[..., Any], **flags: bool) -> Callable[..., Any]:
    """The function with these keyword-only arguments fixed. Branches that they rule out are not compiled.

    For loops in which every branch counts. Line numbers and names in tracebacks are those of the function. It may not
    use variables of an enclosing function. If its source cannot be read, or is no longer what runs here, the arguments
    are passed in every call.
    """
    tree = _tree_of(function)
    if tree is None:
        return functools.partial(function, **flags)
    found: dict[str, Any] = {}
    exec(_compiled(_Fix(flags).visit(tree), function), sys.modules[function.__module__].__dict__, found)
    return found[function.__name__]


def _tree_of(function: Callable[..., Any]) -> ast.Module | None:
    """The syntax tree of a function, None if there is none or the file has changed since it was imported."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    ast.increment_lineno(tree, first - 1)
    return tree if function.__code__ in _compiled(tree, function).co_consts else None


def _compiled(tree: ast.Module, function: Callable[..., Any]) -> Any:
    code = function.__code__
    return compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)


_FUTURE = annotations.compiler_flag
"""That annotations are not evaluated."""


class _Fix(ast.NodeTransformer):
    """Puts constants in the place of arguments."""

    def __init__(self, flags: dict[str, bool]) -> None:
        self._flags = flags

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        kept = [
            pair
            for pair in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if pair[0].arg not in self._flags
        ]
        node.args.kwonlyargs, node.args.kw_defaults = [arg for arg, _ in kept], [default for _, default in kept]
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self._flags:
            return ast.copy_location(ast.Constant(self._flags[node.id]), node)
        return node
