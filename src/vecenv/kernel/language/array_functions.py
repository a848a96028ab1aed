"""The functions of NumPy on arrays that kernels have: one table, which the rules, the types and the docs read.

A function is known by its name; methods of arrays (`x.sum()`) are the function with the array as first argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

CONSTRUCTOR, ELEMENTWISE, REDUCTION, MOVER, SELECTION = "constructor", "elementwise", "reduction", "mover", "selection"


@dataclass(frozen=True)
class ArrayFunction:
    """A function of NumPy on arrays.

    Attributes:
        name: what the stages after this one know it by.
        kind: a constructor makes an array, an elementwise function computes each element by itself, a reduction
            computes a number from many, a mover puts elements to other places, a selection has a size that depends on
            its values.
        signature: its arguments.
        names: what it is called in NumPy.
        is_method: whether arrays have it as a method too.
    """

    name: str
    kind: str
    signature: inspect.Signature
    names: tuple[str, ...]
    is_method: bool


def _signature(text: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {text}: None"))


def _table() -> dict[str, ArrayFunction]:
    rows: list[tuple[str, str, str, bool]] = [
        ("zeros ones empty", CONSTRUCTOR, "shape, dtype=float", False),
        ("full", CONSTRUCTOR, "shape, fill_value, dtype=None", False),
        ("zeros_like ones_like empty_like", CONSTRUCTOR, "a, dtype=None", False),
        ("full_like", CONSTRUCTOR, "a, fill_value, dtype=None", False),
        ("array", CONSTRUCTOR, "object, dtype=None", False),
        ("arange", CONSTRUCTOR, "start, stop=None, step=1, dtype=None", False),
        ("eye", CONSTRUCTOR, "N, M=None, k=0, dtype=float", False),
        ("copy", ELEMENTWISE, "a", True),
        ("astype", ELEMENTWISE, "a, dtype", True),
        ("absolute sign floor ceil trunc rint sqrt square negative", ELEMENTWISE, "x", False),
        ("isnan isfinite isinf logical_not invert", ELEMENTWISE, "x", False),
        ("add subtract multiply divide floor_divide remainder", ELEMENTWISE, "x1, x2", False),
        ("minimum maximum logical_and logical_or logical_xor", ELEMENTWISE, "x1, x2", False),
        ("bitwise_and bitwise_or bitwise_xor", ELEMENTWISE, "x1, x2", False),
        ("equal not_equal less less_equal greater greater_equal", ELEMENTWISE, "x1, x2", False),
        ("where", ELEMENTWISE, "condition, x=None, y=None", False),
        ("clip", ELEMENTWISE, "a, a_min, a_max", True),
        ("sum prod mean", REDUCTION, "a, axis=None", True),
        ("max min argmax argmin any all", REDUCTION, "a, axis=None", True),
        ("count_nonzero", REDUCTION, "a, axis=None", False),
        ("array_equal", REDUCTION, "a1, a2", False),
        ("dot", REDUCTION, "a, b", True),
        ("norm", REDUCTION, "x", False),
        ("roll", MOVER, "a, shift, axis=None", False),
        ("flip", MOVER, "m, axis=None", False),
        ("fliplr flipud", MOVER, "m", False),
        ("transpose", MOVER, "a", True),
        ("rot90", MOVER, "m, k=1", False),
        ("reshape", MOVER, "a, shape", True),
        ("ravel", MOVER, "a", True),
        ("flatten", MOVER, "a", True),
        ("nonzero", SELECTION, "a", True),
        ("flatnonzero argwhere", SELECTION, "a", False),
        ("concatenate", SELECTION, "arrays, axis=0", False),
    ]
    other_names = {
        "absolute": ("absolute", "abs"),
        "divide": ("divide", "true_divide"),
        "remainder": ("remainder", "mod"),
        "max": ("max", "amax"),
        "min": ("min", "amin"),
        "invert": ("invert", "bitwise_not"),
        "concatenate": ("concatenate",),
    }
    no_function = ("astype", "flatten")
    return {
        name: ArrayFunction(
            name,
            kind,
            _signature(signature),
            () if name in no_function else other_names.get(name, (name,)),
            is_method,
        )
        for names, kind, signature, is_method in rows
        for name in names.split()
    }


FUNCTIONS: Mapping[str, ArrayFunction] = _table()
METHODS: Mapping[str, ArrayFunction] = {name: function for name, function in FUNCTIONS.items() if function.is_method}
"""Methods of arrays, by name."""
ATTRIBUTES = ("shape", "size", "ndim", "T")
"""Attributes of arrays."""


def _by_callable() -> dict[Any, ArrayFunction]:
    found: dict[Any, ArrayFunction] = {}
    for function in FUNCTIONS.values():
        for name in function.names:
            owner = np.linalg if name == "norm" else np
            if hasattr(owner, name):
                found[getattr(owner, name)] = function
    return found


_BY_CALLABLE = _by_callable()


def function_of(callee: Callable[..., Any]) -> ArrayFunction | None:
    """The array function that a function of NumPy is, None if it is another."""
    try:
        return _BY_CALLABLE.get(callee)
    except TypeError:  # it cannot be hashed
        return None
