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
    use variables of an enclosing function. If its source cannot be read, the arguments are passed in every call.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return functools.partial(function, **flags)
    ast.increment_lineno(tree, first - 1)
    code = function.__code__
    body = compile(_Fix(flags).visit(tree), code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    found: dict[str, Any] = {}
    exec(body, sys.modules[function.__module__].__dict__, found)
    return found[function.__name__]


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
