"""Windows: slices such as `board[y : y + 4]`, whose size is known unless they reach over an edge of their array.

NumPy cuts a slice at the edges. A statement with windows is written twice: for windows that are within their arrays,
where all sizes are constants, and for all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from vecenv.kernel.lower.elements import compare
from vecenv.kernel.lower.tree import Kind, Ref, index_parts
from vecenv.kernel.lower.types import Array, Tuple, Type


@dataclass(frozen=True)
class Window:
    """Where a window begins, its size, and the size of the axis."""

    start: ast.expr
    size: int
    axis: int

    @property
    def fits(self) -> ast.expr:
        """Whether it is within the array."""
        last = compare(self.start, ast.LtE(), ast.Constant(self.axis - self.size))
        return ast.BoolOp(ast.And(), [compare(self.start, ast.GtE(), ast.Constant(0)), last])


class Typed(Protocol):
    """What is asked about types."""

    def constant(self, node: ast.expr) -> int | None: ...

    @property
    def types(self) -> dict[int, Type]: ...


def windows_in(typed: Typed, statement: ast.stmt) -> dict[int, Window]:
    """The windows of a statement, by the identity of their slices.

    There are none if it binds or returns an array, or calls what may change their places.
    """
    if not isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) or any(map(_may_change, ast.walk(statement))):
        return {}
    value = statement.value
    gives_array = isinstance(typed.types.get(id(value)), (Array, Tuple))
    binds = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Tuple))
    if gives_array and (binds or isinstance(statement, ast.Return)):
        return {}
    return dict(_windows(typed, statement))


def _windows(typed: Typed, statement: ast.stmt) -> Iterator[tuple[int, Window]]:
    for node in ast.walk(statement):
        owner = typed.types.get(id(node.value)) if isinstance(node, ast.Subscript) else None
        if not isinstance(node, ast.Subscript) or not isinstance(owner, Array):
            continue
        parts = index_parts(node.slice)
        if any(isinstance(part, ast.Constant) and part.value in (None, ...) for part in parts):
            continue
        for part, size in zip(parts, owner.shape, strict=False):
            window = _window(typed, part, size) if isinstance(part, ast.Slice) and isinstance(size, int) else None
            if window is not None:
                yield id(part), window


def _window(typed: Typed, part: ast.Slice, axis: int) -> Window | None:
    """The window that a slice of an axis is; None if it is another slice."""
    if part.lower is None or part.upper is None or part.step is not None:
        return None
    (first, low), (second, high) = _offset(typed, part.lower), _offset(typed, part.upper)
    if first is None or second is None or ast.dump(first) != ast.dump(second) or not 0 < high - low <= axis:
        return None
    return Window(part.lower, high - low, axis) if _is_plain(part.lower) else None


def _offset(typed: Typed, node: ast.expr) -> tuple[ast.expr | None, int]:
    """A variable part and a constant: `y + 3` as (y, 3)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right = typed.constant(node.right)
        if right is not None:
            inner, offset = _offset(typed, node.left)
            return inner, offset + (right if isinstance(node.op, ast.Add) else -right)
        left = typed.constant(node.left)
        if left is not None and isinstance(node.op, ast.Add):
            inner, offset = _offset(typed, node.right)
            return inner, offset + left
    return (node, 0) if typed.constant(node) is None else (None, 0)


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression can be computed twice: variables, fields, elements and sums."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not (isinstance(part.func, Ref) and part.func.name == "widen"):
            return False
        if not isinstance(part, (ast.Name, Ref, ast.Constant, ast.BinOp, ast.operator, ast.expr_context, ast.Call)):
            return False
    return True


def _may_change(node: ast.AST) -> bool:
    if isinstance(node, ast.NamedExpr):
        return True
    of_ours = (Kind.HELPER, Kind.TWIN, Kind.DRAW, Kind.DRAWN_ARRAY)
    return isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.kind in of_ours
