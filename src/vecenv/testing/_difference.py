"""Equality of results to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def difference(one: Any, other: Any, path: str, tolerance: float | None = None) -> str | None:
    """The first difference of two nested results: structure, type, dtype, shape or any bit; None if they are equal.

    Floats may have the absolute or relative difference `tolerance`, if that is not None.
    """
    if type(one) is not type(other):
        return f"{path}: {_short(one)} and {_short(other)}"
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return f"{path}: keys {list(one)} and {list(other)}"
        return _first(difference(one[key], other[key], f"{path}[{key!r}]", tolerance) for key in one)
    if isinstance(one, (tuple, list)):
        if len(one) != len(other):
            return f"{path}: {len(one)} items and {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        return _first(difference(*pair, f"{path}[{number}]", tolerance) for number, pair in pairs)
    if isinstance(one, (np.ndarray, np.generic)):
        return _difference_of_arrays(np.asarray(one), np.asarray(other), path, tolerance)
    same = one == other or (one != one and other != other)
    return None if same else f"{path}: {_short(one)} and {_short(other)}"


def _difference_of_arrays(one: np.ndarray, other: np.ndarray, path: str, tolerance: float | None) -> str | None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{path}: {one.dtype} of shape {one.shape} and {other.dtype} of shape {other.shape}"
    if one.dtype == object:
        return difference(one.tolist(), other.tolist(), path, tolerance)
    if tolerance is None or one.dtype.kind != "f":
        same = one.tobytes() == other.tobytes()
    else:
        same = np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    if same or not one.shape:
        return None if same else f"{path}: {one} and {other}"
    pairs = enumerate(zip(one, other, strict=True))
    return _first(difference(*pair, f"{path}[{number}]", tolerance) for number, pair in pairs)


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def _short(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.200}"
