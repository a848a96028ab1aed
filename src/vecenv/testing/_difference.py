"""Equality of results to the last bit."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

Found = tuple[str, str, str] | None
"""Where two results differ, what is there in the one, and what in the other; None if they are equal."""


def difference(one: Any, other: Any, path: str, tolerance: float | None = None, ordered: bool = True) -> Found:
    """The first difference of two nested results: structure, type, dtype, shape or any bit.

    Floats may differ by `tolerance`, absolute or relative, if that is not None. If `ordered`, the order of keys counts.
    """
    inside = functools.partial(difference, tolerance=tolerance, ordered=ordered)
    if type(one) is not type(other):
        return path, _short(one), _short(other)
    if isinstance(one, Mapping):
        if one.keys() != other.keys() or (ordered and list(one) != list(other)):
            return path, f"keys {list(one)}", f"keys {list(other)}"
        return _first(inside(one[key], other[key], f"{path}[{key!r}]") for key in one)
    if isinstance(one, (tuple, list)):
        if len(one) != len(other):
            return path, f"{len(one)} items", f"{len(other)} items"
        pairs = enumerate(zip(one, other, strict=True))
        return _first(inside(*pair, f"{path}[{number}]") for number, pair in pairs)
    if isinstance(one, (np.ndarray, np.generic)):
        return _difference_of_arrays(np.asarray(one), np.asarray(other), path, tolerance, inside)
    same = one == other or (one != one and other != other)
    return None if same else (path, _short(one), _short(other))


def _difference_of_arrays(one: np.ndarray, other: np.ndarray, path: str, tolerance: float | None, inside: Any) -> Found:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return path, f"{one.dtype} of shape {one.shape}", f"{other.dtype} of shape {other.shape}"
    if one.dtype == object:
        return inside(one.tolist(), other.tolist(), path)
    if tolerance is None or one.dtype.kind != "f":
        same = one.tobytes() == other.tobytes()
    else:
        same = np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    if same or not one.shape:
        return None if same else (path, str(one), str(other))
    pairs = enumerate(zip(one, other, strict=True))
    return _first(inside(*pair, f"{path}[{number}]") for number, pair in pairs)


def _first(found: Any) -> Found:
    return next((each for each in found if each is not None), None)


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.200}"
