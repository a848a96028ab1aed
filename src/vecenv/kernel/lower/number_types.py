"""Rules for numbers that only types tell: what is assigned, returned, drawn and computed with, before any compiler."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.fields import mismatch
from vecenv.kernel.lower.types import NOTHING, STREAM, UNKNOWN, Array, Conflict, Iterator, Number, Tuple, Type

_PYTHON = {"b": bool, "i": int, "u": int, "f": float}
_OF_OPTIONS = ("choice", "fill_choice", "sample")
"""Functions that draw whose `p` has a weight for each option."""


class Typing(Protocol):
    """What is asked of the inference."""

    def fail(self, node: ast.AST, rule: str) -> KernelError: ...


def check_assigned(typing: Typing, node: ast.AST, dtype: str, value: Type, what: str) -> None:
    """Raise unless a value can be assigned to a number of a dtype; `what` names the number."""
    if value == UNKNOWN:
        return
    kind = _PYTHON[np.dtype(value.dtype).kind] if isinstance(value, Number) else type(None)
    wrong = mismatch(np.dtype(dtype), kind if value == NOTHING or isinstance(value, Number) else tuple)
    if wrong:
        raise typing.fail(node, f"{what} is {dtype}, but is assigned {value}; {wrong}")


def check_result(typing: Typing, node: ast.AST, name: str, value: Type) -> None:
    """Raise unless what a step returns is a number, and a flag no float."""
    if value == UNKNOWN or isinstance(value, Array):
        return
    if not isinstance(value, Number):
        raise typing.fail(node, f"this is {value}; it must be a number")
    if name == "as_flag" and "float" in value.dtype:
        rule = "terminated and truncated are bools, and this is a float; return reward, terminated, in this order"
        raise typing.fail(node, rule)


def check_operand(typing: Typing, node: ast.AST, value: Type) -> None:
    """Raise for what no expression computes with."""
    if isinstance(value, Iterator):
        rule = "range, enumerate and zip can only be looped over; for `x in range(low, high)` write low <= x < high"
        raise typing.fail(node, rule)
    if value in (NOTHING, STREAM) or isinstance(value, Conflict):
        raise typing.fail(node, f"this computes with {value}; it must be a number or an array")


def check_numbers(typing: Typing, node: ast.AST, operands: Sequence[Type]) -> None:
    """Raise unless an operator has numbers: a tuple has none of its operators in native code."""
    for operand in operands:
        check_operand(typing, node, operand)
        if isinstance(operand, Tuple):
            raise typing.fail(node, f"this computes with {operand} at once; use one of them, [0], or np.array(...)")


def check_several(typing: Typing, node: ast.AST, value: Type, use: str) -> None:
    """Raise for a number, or nothing at all, where several values are needed."""
    if not isinstance(value, Iterator):
        check_operand(typing, node, value)
    if isinstance(value, Number):
        raise typing.fail(node, f"{use} {value}; it must be an array or several values")


def check_range(typing: Typing, node: ast.AST, arguments: Sequence[Type]) -> None:
    """Raise unless `range` is given ints."""
    for argument in arguments:
        if argument != UNKNOWN and (not isinstance(argument, Number) or "float" in argument.dtype):
            raise typing.fail(node, f"range() is given {argument}; it counts with ints: use int(...), // or len(...)")


def check_power(typing: Typing, node: ast.AST, base: Type, exponent: Type) -> None:
    """Raise for an int to the power of a negative one, which is a float in Python."""
    check_numbers(typing, node, [base, exponent])
    whole = isinstance(base, Number) and "float" not in base.dtype
    if whole and isinstance(exponent, Number) and exponent.value is not None and exponent.value < 0:
        raise typing.fail(node, "an int to the power of a negative int; use float(x) ** n")


def check_draw(typing: Typing, node: ast.Call, name: str, given: Mapping[str, Type]) -> None:
    """Raise unless the arguments of a function that draws are what it takes; `given` are their types by name."""
    array = random_numbers.IN_PLACE.get(name, "out")
    for parameter, value in given.items():
        if value == UNKNOWN or parameter == "size":
            continue
        if parameter == array:
            _check_written(typing, node, name, value)
        elif parameter in ("options", "pvals") or (parameter == "p" and name in _OF_OPTIONS):
            if isinstance(value, Number) and parameter != "options":
                raise typing.fail(node, f"{name} is given {value} as {parameter}; it must be one weight per option")
            check_operand(typing, node, value)
        elif value != NOTHING and not isinstance(value, Number):
            raise typing.fail(node, f"{name} is given {value} as {parameter}, which is one number")


def _check_written(typing: Typing, node: ast.Call, name: str, value: Type) -> None:
    """The array that a function writes into."""
    if value == NOTHING:
        return
    if not isinstance(value, Array):
        raise typing.fail(node, f"{name} writes into an array, and this is {value}")
    kind = np.dtype(value.dtype).kind
    if name in random_numbers.NUMBERS and value.dtype != "float64":
        raise typing.fail(node, f"{name}(out=...) needs an array of float64, as in NumPy; use fill_{name}")
    if name == "sample" and kind not in "iu":
        raise typing.fail(node, "sample writes ints; give it an array of ints")
    drawn = random_numbers.NUMBERS.get(name.removeprefix("fill_")) if name.startswith("fill_") else None
    if drawn is float and kind != "f":
        raise typing.fail(node, f"{name} writes floats into {value}; declare it as float")
    if kind == "b" and name not in ("shuffle", "fill_choice"):
        raise typing.fail(node, f"{name} writes numbers into {value}; declare it as int")


def arguments_of_draw(name: str, positional: Sequence[Type], keywords: Mapping[str, Type]) -> dict[str, Type]:
    """Types of the arguments of a function that draws, by the names of its parameters, without the stream."""
    parameters = list(inspect.signature(getattr(random_numbers, name)).parameters)
    return {**dict(zip(parameters[1:], positional[1:], strict=False)), **keywords}


# --- tuples ----------------------------------------------------------------------------------------------------------


def place_in_tuple(typing: Typing, node: ast.AST, owner: Tuple, index: Sequence[Type]) -> int | None:
    """The place that an index names in a tuple, None if it is known only when the code runs. Raises if it cannot be."""
    if len(index) != 1 or (index[0] != UNKNOWN and not isinstance(index[0], Number)):
        raise typing.fail(node, f"{owner} have one index, an int; use an array: np.array(...)")
    first = index[0]
    if isinstance(first, Number) and "float" in first.dtype:
        raise typing.fail(node, "a float is no index; use int(...) or //")
    place = first.value if isinstance(first, Number) else None
    if place is None:
        check_same_kind(typing, node, owner)
    elif not -len(owner.items) <= place < len(owner.items):
        raise typing.fail(node, f"index {place} is out of range: there are {owner}")
    return place


def check_same_kind(typing: Typing, node: ast.AST, value: Type) -> None:
    """Raise for a tuple of values of different types where native code needs one type for all."""
    if not isinstance(value, Tuple):
        return
    if not value.items:
        raise typing.fail(node, "this is an empty tuple, which has no native form here")
    kinds = {_kind(item) for item in value.items}
    if kinds == {"int64", "float64"}:
        raise typing.fail(node, "a variable picks one of ints and floats; make all of them floats: write 1.0, not 1")
    if len(kinds) > 1:
        rule = "these values are of different types, and which one is used is known only when the code runs"
        raise typing.fail(node, f"{rule}; make all of them floats, or all of them ints")


def _kind(value: Type) -> object:
    if isinstance(value, Number):
        return value.dtype
    if isinstance(value, Array):
        return value.dtype, len(value.shape)
    return tuple(map(_kind, value.items)) if isinstance(value, Tuple) else value


def check_compared(typing: Typing, node: ast.AST, operands: Sequence[Type]) -> None:
    """Raise for tuples that native code cannot compare: such of other lengths, or of other things than numbers."""
    tuples = [operand for operand in operands if isinstance(operand, Tuple)]
    if not tuples or UNKNOWN in operands:
        return
    lengths = {len(operand.items) for operand in tuples}
    plain = all(isinstance(item, Number) for operand in tuples for item in operand.items)
    if len(tuples) < len(operands) or len(lengths) > 1 or not plain:
        shown = " and ".join(map(str, operands))
        raise typing.fail(node, f"{shown} are compared; compare numbers, one by one, or use np.array_equal")


def check_bound(typing: Typing, node: ast.AST, value: Type) -> None:
    """Raise unless the end of a slice is an int."""
    if value in (UNKNOWN, NOTHING) or (isinstance(value, Number) and "float" not in value.dtype):
        return
    raise typing.fail(node, f"a part of an array ends at {value}; its ends are ints: use int(...) or //")
