"""Types of random draws: of one number, and of the arrays that methods of `rng` return."""

from __future__ import annotations

import ast

from vecenv.kernel import rng as random_numbers
from vecenv.kernel.lower.array_types import Typing, as_array, shape_named
from vecenv.kernel.lower.types import FLOAT, INT, NOTHING, Array, Bound, Number, Tuple, Type

_SEVERAL = ("a", "p", "pvals", "x", "size")
"""Arguments that are not one number."""


def of_draw(typing: Typing, node: ast.Call, name: str) -> Type:
    """The type of a draw of one number, or of one of several rows."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if name == "choice":
        options = node.args[1] if len(node.args) > 1 else keywords["options"]
        made = as_array(typing, node, typing.type_of(options))
        if isinstance(made, Number):
            return INT
        return made.element if len(made.shape) == 1 else Array(made.dtype, made.shape[1:])
    if name in random_numbers.IN_PLACE:
        return NOTHING
    if "out" in keywords:
        return typing.type_of(keywords["out"])
    return INT if random_numbers.NUMBERS[name] is int else FLOAT


def of_drawn_array(typing: Typing, node: ast.Call, name: str) -> Type:
    """The type of a new array of drawn numbers."""
    given = {keyword.arg or "": keyword.value for keyword in node.keywords}
    for key, value in given.items():
        if key not in _SEVERAL and not isinstance(typing.type_of(value), Number):
            raise typing.fail(node, f"{key} of rng.{name} is {typing.type_of(value)}; it must be one number")
    if name == "multinomial":
        return Array("int64", _row(typing, node, "pvals", given["pvals"]).shape)
    if name == "permutation":
        return _of_permutation(typing, node, given["x"])
    shape = shape_named(typing, given["size"])
    if name != "choice":
        return Array("int64" if random_numbers.NUMBERS[name] is int else "float64", shape)
    if "p" in given:
        _row(typing, node, "p", given["p"])
    if not isinstance(given.get("replace", ast.Constant(True)), ast.Constant):
        raise typing.fail(node, "replace must be True or False where rng.choice is called")
    options = as_array(typing, node, typing.type_of(given["a"]))
    if is_sample(given) and any(isinstance(size, Bound) for size in shape):
        raise typing.fail(node, "a sample without replacement needs a size that is known; take the first of a shuffle")
    if isinstance(options, Number):
        return Array("int64", shape)
    return Array(options.dtype, (*shape, *options.shape[1:]))


def _row(typing: Typing, node: ast.Call, name: str, value: ast.expr) -> Array:
    row = as_array(typing, node, typing.type_of(value))
    if isinstance(row, Number) or len(row.shape) != 1:
        raise typing.fail(node, f"{name} is {row}; it must be one row of numbers")
    return row


def _of_permutation(typing: Typing, node: ast.Call, value: ast.expr) -> Type:
    kind = typing.type_of(value)
    if isinstance(kind, (Array, Tuple)):
        made = as_array(typing, node, kind)
        assert isinstance(made, Array)
        return Array(made.dtype, made.shape)
    (size,) = shape_named(typing, value)
    return Array("int64", (size,))


def is_sample(given: dict[str, ast.expr]) -> bool:
    """Whether `rng.choice` draws without replacement."""
    replace = given.get("replace")
    return isinstance(replace, ast.Constant) and not replace.value
