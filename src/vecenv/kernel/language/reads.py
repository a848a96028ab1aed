"""What a function reads from outside. While that is the same, code that was compiled from it need not be made again."""

from __future__ import annotations

import contextlib
import pickle
from types import FunctionType
from typing import Any

import numpy as np

from vecenv.kernel.language.source import MISSING, read_source

_BY_VALUE = (bool, int, float, str, np.ndarray, np.generic, tuple, list, dict, set, frozenset)


class Same:
    """A value that equals itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


Reads = tuple[Same | bytes, ...]
"""Numbers, arrays and what is made of them as they were then, everything else by identity."""


def reads_of(function: Any) -> Reads:
    """The function itself, what it reads from outside, and what the functions that it calls read."""
    found: list[Same | bytes] = []
    waiting, read = [Same(function)], set()
    while waiting:
        current = waiting.pop()
        if current in read:
            continue
        read.add(current)
        for value in (current.value, *_values(current.value)):
            found.append(_as_it_is(value))
            if isinstance(value, FunctionType):
                waiting.append(Same(value))
    return tuple(found)


def _values(function: Any) -> list[Any]:
    """Values of defaults, names, and attributes of modules and classes, in the order of the text."""
    if (getattr(function, "__module__", None) or "").partition(".")[0] == "numpy":
        return []
    try:
        source = read_source(function)
    except (OSError, TypeError, SyntaxError):  # the compiler reports it, if it needs the source
        return []
    defaults = getattr(function, "__defaults__", None) or ()
    return [*defaults, *(value for chain in source.outside if (value := source.follow(chain)) is not MISSING)]


def _as_it_is(value: Any) -> Same | bytes:
    if isinstance(value, _BY_VALUE):
        with contextlib.suppress(Exception):  # whatever objects in it raise
            return pickle.dumps(value)
    return Same(value)
