"""Plain values and arrays as data: JSON that refers to arrays beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

KINDS = "biufc"
"""Kinds of NumPy's dtypes that are numbers: a file holds no others."""
_PLAIN = (bool, int, float, str, type(None))
_DEEPEST = 50


class NotData(Exception):
    """A value that cannot be written as data; the message names it and its type."""


def pack(value: Any, arrays: list[np.ndarray], where: str, depth: int = 0) -> Any:
    """JSON of a value; its arrays are appended to `arrays`. Raises NotData if anything in it is not data."""
    kind = type(value)
    if depth > _DEEPEST:
        raise NotData(f"{where} is nested deeper than {_DEEPEST} levels")
    if kind in _PLAIN:
        return value
    if isinstance(value, GraphInstance):
        return {"graph": [pack(part, arrays, f"{where}[{place}]", depth + 1) for place, part in enumerate(value)]}
    if kind in (list, tuple):
        parts = [pack(part, arrays, f"{where}[{place}]", depth + 1) for place, part in enumerate(value)]
        return {kind.__name__: parts}
    if kind is dict:
        pairs = [(_key(key, where), pack(part, arrays, f"{where}[{key!r}]", depth + 1)) for key, part in value.items()]
        return {"dict": [list(pair) for pair in pairs]}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in KINDS and not value.dtype.metadata:
        arrays.append(np.array(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    raise NotData(f"{where} is a {kind.__module__}.{kind.__qualname__}")


def _key(key: Any, where: str) -> Any:
    if type(key) not in _PLAIN:
        raise NotData(f"a key of {where} is a {type(key).__module__}.{type(key).__qualname__}")
    return key


def unpack(packed: Any, arrays: list[np.ndarray]) -> Any:
    """The value that `pack` was given. Raises ValueError, IndexError or TypeError if it is none of ours."""
    if type(packed) in _PLAIN:
        return packed
    if type(packed) is not dict or len(packed) != 1:
        raise ValueError(f"no value of ours: {packed!r:.60}")
    ((kind, value),) = packed.items()
    if kind in ("array", "scalar"):
        if type(value) is not int or not 0 <= value < len(arrays):
            raise ValueError(f"there is no array {value!r:.60}")
        return arrays[value] if kind == "array" else arrays[value][()]
    if type(value) is not list:
        raise ValueError(f"no {kind!r:.60} of ours: {value!r:.60}")
    if kind == "dict":
        return {_plain(key): unpack(part, arrays) for key, part in value}
    parts = [unpack(part, arrays) for part in value]
    if kind == "graph":
        return GraphInstance(*parts)
    if kind not in ("list", "tuple"):
        raise ValueError(f"no value of ours: {kind!r:.60}")
    return parts if kind == "list" else tuple(parts)


def _plain(key: Any) -> Any:
    if type(key) not in _PLAIN:
        raise ValueError(f"unknown key {key!r:.60}")
    return key
