"""Numbers in the text of a kernel function that are never negative: their index needs no look at its sign."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence


def natural_variables(nodes: Sequence[ast.AST], parameters: Collection[str]) -> set[str]:
    """Variables of which every value is an int that is not negative."""
    stored: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            stored.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            stored.setdefault(node.target.id, []).append(_first_of_range(node.iter))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.setdefault(node.id, [])
    counts = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    natural = {name for name, values in stored.items() if len(values) == counts[name]} - set(parameters)
    while True:
        found = {
            name for name in natural if all(value is not None and is_natural(value, natural) for value in stored[name])
        }
        if found == natural:
            return natural
        natural = found


def _first_of_range(iterated: ast.expr) -> ast.expr | None:
    """The smallest value of a range that ascends."""
    if not (isinstance(iterated, ast.Call) and is_call_of(iterated, "range")):
        return None
    if len(iterated.args) == 1:
        return ast.Constant(0)
    if len(iterated.args) == 3 and not (isinstance(iterated.args[2], ast.Constant) and iterated.args[2].value > 0):  # type: ignore[operator]  # it is an int
        return None
    return iterated.args[0]


def is_natural(node: ast.expr, naturals: Collection[str]) -> bool:
    """Whether an expression is an int that is not negative, if these variables are."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value >= 0
    if isinstance(node, ast.Name):
        return node.id in naturals
    if isinstance(node, ast.IfExp):
        return is_natural(node.body, naturals) and is_natural(node.orelse, naturals)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return is_natural(node.left, naturals) and is_natural(node.right, naturals)
    if isinstance(node, ast.Call):
        if is_call_of(node, "len"):
            return True
        keeps = is_call_of(node, "widen__") or is_call_of(node, "min")
        return keeps and all(is_natural(one, naturals) for one in node.args)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return node.value.attr == "shape"
    return False


def is_call_of(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name
