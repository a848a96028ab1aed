"""Formulas of elementwise functions: one element of the result from one element of each operand.

Where NumPy leaves a choice to the processor (the sign of a zero that minimum returns), the formula decides, and the run
in Python (`language/array_module.py`) follows the same formula.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from vecenv.kernel.lower.elements import as_dtype, builtin, compare
from vecenv.kernel.lower.tree import Kind, operation, ref

Keep = Callable[[ast.expr], ast.expr]
"""Puts a value into a variable, so that it can be used twice."""
Formula = Callable[[Sequence[ast.expr], Keep], ast.expr]

_BINARY: dict[str, ast.operator] = {
    "add": ast.Add(),
    "subtract": ast.Sub(),
    "multiply": ast.Mult(),
    "divide": ast.Div(),
    "floor_divide": ast.FloorDiv(),
    "remainder": ast.Mod(),
    "bitwise_and": ast.BitAnd(),
    "bitwise_or": ast.BitOr(),
    "bitwise_xor": ast.BitXor(),
}
_OF_BOOLS: dict[str, ast.operator] = {"add": ast.BitOr(), "multiply": ast.BitAnd()}
_LOGICAL: dict[str, ast.operator] = {
    "logical_and": ast.BitAnd(),
    "logical_or": ast.BitOr(),
    "logical_xor": ast.BitXor(),
}
_COMPARISONS: dict[str, ast.cmpop] = {
    "equal": ast.Eq(),
    "not_equal": ast.NotEq(),
    "less": ast.Lt(),
    "less_equal": ast.LtE(),
    "greater": ast.Gt(),
    "greater_equal": ast.GtE(),
}


def formula(name: str, inner: str, dtype: str, given: Sequence[str]) -> Formula:
    """The formula of a function.

    Args:
        name: of the function.
        inner: the dtype in which it computes.
        dtype: of its result.
        given: dtypes of the operands.
    """
    is_float = np.dtype(inner).kind == "f"
    if name in _BINARY:
        bools = inner == "bool" and name in _OF_BOOLS
        operator = _OF_BOOLS[name] if bools else _BINARY[name]
        return lambda values, keep: as_dtype(inner, ast.BinOp(values[0], operator, values[1]))
    if name in _COMPARISONS:
        return lambda values, keep: compare(values[0], _COMPARISONS[name], values[1])
    if name in _LOGICAL:
        return lambda values, keep: ast.BinOp(truth(values[0], given[0]), _LOGICAL[name], truth(values[1], given[1]))
    if name in ("minimum", "maximum"):
        return lambda values, keep: _extreme(name, is_float, *map(keep, _floats(values, given, is_float)))
    if name == "where":
        return lambda values, keep: ast.IfExp(
            truth(values[0], given[0]), *_floats(values[1:], given[1:], np.dtype(dtype).kind == "f")
        )
    if name == "clip":
        return lambda values, keep: _clipped(keep, *map(keep, _floats(values, given, is_float)))
    if name in ("copy", "astype"):
        return lambda values, keep: converted(values[0], given[0], dtype)
    return lambda values, keep: _unary(name, inner, values[0], keep)


def _floats(values: Sequence[ast.expr], given: Sequence[str], is_float: bool) -> list[ast.expr]:
    """The operands of a function that returns one of them. Ints beside floats become floats, so that 0 is 0.0."""
    return [
        operation("as_number", value) if is_float and np.dtype(its).kind != "f" else value
        for value, its in zip(values, given, strict=True)
    ]


def _unary(name: str, inner: str, value: ast.expr, keep: Keep) -> ast.expr:
    is_float = np.dtype(inner).kind == "f"
    if name == "negative":
        return as_dtype(inner, ast.UnaryOp(ast.USub(), value))
    if name == "absolute":
        return value if inner == "bool" else as_dtype(inner, builtin("abs", value))
    if name == "square":
        value = keep(value)
        return as_dtype(inner, ast.BinOp(value, ast.Mult(), value))
    if name == "sqrt":
        root = ast.Call(ref(Kind.MATH, "sqrt"), [value], [])
        return as_dtype(inner, root)
    if name in ("floor", "ceil", "trunc", "rint"):
        return operation(name, value)
    if name in ("isnan", "isfinite", "isinf"):
        if not is_float:
            return ast.Constant(name == "isfinite")
        return ast.Call(ref(Kind.MATH, name), [value], [])
    if name == "sign":
        return _sign(keep(value), is_float)
    if name == "logical_not":
        return ast.UnaryOp(ast.Not(), truth(value, inner))
    assert name == "invert", name
    if inner == "bool":
        return ast.UnaryOp(ast.Not(), value)
    return as_dtype(inner, ast.BinOp(ast.UnaryOp(ast.USub(), value), ast.Sub(), ast.Constant(1)))


def truth(value: ast.expr, dtype: str) -> ast.expr:
    """Whether a number is not zero."""
    return value if dtype == "bool" else compare(value, ast.NotEq(), ast.Constant(0))


def converted(value: ast.expr, dtype: str, wanted: str) -> ast.expr:
    """A number of a dtype in another: what `astype` does."""
    if dtype == wanted:
        return value
    kind, its = np.dtype(wanted).kind, np.dtype(dtype).kind
    if kind == "b":
        return truth(value, dtype)
    if kind == "f":
        return operation("as_number" if wanted == "float64" else f"as_{wanted}", value)
    return operation(f"as_{wanted}", builtin("int", value) if its == "f" else value)


def _extreme(name: str, is_float: bool, one: ast.expr, other: ast.expr) -> ast.expr:
    better: ast.expr = compare(one, ast.Lt() if name == "minimum" else ast.Gt(), other)
    if is_float:
        better = ast.BoolOp(ast.Or(), [better, compare(one, ast.NotEq(), one)])
    return ast.IfExp(better, one, other)


def _clipped(keep: Keep, value: ast.expr, low: ast.expr, high: ast.expr) -> ast.expr:
    value = keep(ast.IfExp(compare(value, ast.Lt(), low), low, value))
    return ast.IfExp(compare(value, ast.Gt(), high), high, value)


def _sign(value: ast.expr, is_float: bool) -> ast.expr:
    one, none = (1.0, 0.0) if is_float else (1, 0)
    rest: ast.expr = ast.Constant(none)
    if is_float:
        rest = ast.IfExp(compare(value, ast.Eq(), ast.Constant(0.0)), rest, value)
    below = compare(value, ast.Lt(), ast.Constant(none))
    rest = ast.IfExp(below, ast.UnaryOp(ast.USub(), ast.Constant(one)), rest)
    return ast.IfExp(compare(value, ast.Gt(), ast.Constant(none)), ast.Constant(one), rest)
