"""Observations that other code may still write into, and copies that belong to us.

Several envs may return one array, or views of one: each then overwrites what the env before it returned. What is kept
while other envs run must have no other reference, or be a copy. Python counts references, so it is cheap to find out.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import ndarray

ATOMS = frozenset({bool, int, float, str, bytes, type(None), np.bool_, np.float32, np.float64, np.int32, np.int64})
"""Types of immutable values."""


def _references() -> int:
    container = [np.zeros(1)]
    (array,) = container
    return getrefcount(array)


UNSHARED = _references()
"""What `getrefcount(variable)` says of an object that only a container and this local variable refer to.

In the arguments of another call it would say more: those before it are references too.
"""
ALONE = UNSHARED - 1
"""The same of an object that only this local variable holds."""


def own(value: Any, held: bool = True) -> Any:
    """The value itself if there is no other reference to it, else a copy. What cannot be copied is returned as it is.

    Args:
        held: whether other code may hold the value itself, not only its parts.
    """
    kind = type(value)
    if kind is ndarray:
        return _copy(value)
    if kind in ATOMS:
        return value
    if kind is dict or kind is OrderedDict:
        unshared = not held and _are_unshared(value.values())
        return value if unshared else kind((key, own(part)) for key, part in value.items())
    if kind is tuple or kind is list:
        return value if not held and _are_unshared(value) else kind(map(own, value))
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _copy(array: ndarray) -> ndarray:
    """A copy of an array. What it repeats is copied once: `np.broadcast_to(0, 10**9)` is larger than its memory."""
    if 0 not in array.strides:
        return array.copy()
    once = tuple(slice(None) if stride else slice(1) for stride in array.strides)
    return np.broadcast_to(array[once].copy(), array.shape)


def _are_unshared(parts: Iterable[Any]) -> bool:
    """Whether the parts of a container cannot be written into, if there is no other reference to the container."""
    for part in parts:
        kind = type(part)
        if kind is ndarray:
            if part.base is not None or getrefcount(part) > UNSHARED:
                return False
        elif kind is dict or kind is tuple:
            if getrefcount(part) > UNSHARED or not _are_unshared(part.values() if kind is dict else part):
                return False
        elif kind not in ATOMS:
            return False
    return True


def own_info(info: Any) -> Any:
    """A copy of an info, with copies of the arrays and dicts in it. What is not a plain dict is returned as it is.

    An info may contain itself, and may be nested deeper than Python calls functions.
    """
    if type(info) is not dict:
        return info
    owned: dict[Any, Any] = {}
    copies, unfinished = {id(info): owned}, [(info, owned)]
    while unfinished:
        source, target = unfinished.pop()
        for key, value in source.items():
            kind = type(value)
            if kind is dict:
                if id(value) not in copies:
                    copies[id(value)] = {}
                    unfinished.append((value, copies[id(value)]))
                target[key] = copies[id(value)]
            else:
                target[key] = _copy(value) if kind is ndarray else value
    return owned
