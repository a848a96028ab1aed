"""Sums and norms with the same bits as NumPy's: NumPy adds in its own order, and BLAS may round once instead of twice.

For use in tasks: in Python these call NumPy, in native code they give the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vecenv.kernel.language.twins import twin
from vecenv.mujoco._physics import fused

_NATIVE = "vecenv.mujoco._native"


@twin(_NATIVE)
def sum_of(values: Any) -> float:
    """`np.sum(values)`, of at most 1,000 numbers."""
    return float(np.sum(np.asarray(values)))


@twin(_NATIVE)
def sum_of_squares(values: Any) -> float:
    """`np.sum(np.square(values))`, of at most 1,000 numbers; of a float32 array in float32."""
    return float(np.sum(np.square(np.asarray(values))))


@twin(_NATIVE)
def sum_of_squares_clipped(values: Any, low: float, high: float) -> float:
    """`np.sum(np.square(np.clip(values, low, high)))`, of at most 1,000 float64 numbers."""
    return float(np.sum(np.square(np.clip(np.asarray(values), low, high))))


def times_32(x: float, y: float) -> float:
    """`np.float32(x) * y`: NumPy multiplies a float32 by a Python number in float32."""
    return _round(_round(x) * _round(y))


def clip(x: float, low: float, high: float) -> float:
    """`np.clip(x, low, high)`."""
    return low if x < low else high if x > high else x


def norm_2(x: float, y: float) -> float:
    """`np.linalg.norm([x, y])`."""
    if FUSED:
        return math.sqrt(fused(y, y, x * x))
    return math.sqrt(x * x + y * y)


def norm_3(x: float, y: float, z: float) -> float:
    """`np.linalg.norm([x, y, z])`."""
    if FUSED:
        return math.sqrt(fused(z, z, fused(y, y, x * x)))
    return math.sqrt(x * x + y * y + z * z)


def _round(x: float) -> float:
    return float(np.float32(x))


def _is_fused() -> bool:
    pairs = np.random.default_rng(0).normal(size=(64, 2)).tolist()
    return all(float(np.dot(pair, pair)) == fused(pair[1], pair[1], pair[0] * pair[0]) for pair in pairs)


FUSED = _is_fused()
"""Whether `np.dot`, which `np.linalg.norm` uses, rounds a product and a sum only once on this machine."""
