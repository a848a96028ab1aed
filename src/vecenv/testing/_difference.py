"""Equality of results to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def difference(one: Any, other: Any, path: str = "result") -> str | None:
    """The first difference of two nested results: structure, type, dtype, shape or any bit; None if they are equal."""
    if type(one) is not type(other):
        return f"{path}: {_short(one)} and {_short(other)}"
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return f"{path}: keys {list(one)} and {list(other)}"
        return _first(difference(one[key], other[key], f"{path}[{key!r}]") for key in one)
    if isinstance(one, (tuple, list)):
        if len(one) != len(other):
            return f"{path}: {len(one)} items and {len(other)}"
        return _first(
            difference(*pair, f"{path}[{number}]") for number, pair in enumerate(zip(one, other, strict=True))
        )
    if isinstance(one, (np.ndarray, np.generic)):
        return _difference_of_arrays(np.asarray(one), np.asarray(other), path)
    same = one == other or (one != one and other != other)
    return None if same else f"{path}: {_short(one)} and {_short(other)}"


def _difference_of_arrays(one: np.ndarray, other: np.ndarray, path: str) -> str | None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{path}: {one.dtype} of shape {one.shape} and {other.dtype} of shape {other.shape}"
    if one.dtype == object:
        return difference(one.tolist(), other.tolist(), path)
    if one.tobytes() == other.tobytes():
        return None
    where = "" if not one.shape else f"[{np.flatnonzero(_differ(one, other))[0]}]"
    return f"{path}{where}: {_short(one)} and {_short(other)}"


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Rows that differ in any bit."""
    return np.array([a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True)])


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.200}"
