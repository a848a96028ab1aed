"""NumPy operations of Gymnasium's envs, written so that Python and native code round in the same way."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.rng import Generator, random

KEEPS_SINGLE = (np.float32(1) * 1.0).dtype == np.float32
"""Whether a np.float32 and a Python number give a np.float32, as from NumPy 2 on."""

# Coefficients of NumPy's (BSD-3-Clause) sine and cosine of float32, and pi / 2 in three parts.
_TWO_OVER_PI = float.fromhex("0x1.45f306p-1")
_HIGH, _MIDDLE, _LOW = (float.fromhex(part) for part in ("0x1.921fb0p+0", "0x1.5110b4p-22", "0x1.846988p-48"))
_COSINE_8, _COSINE_6, _COSINE_4 = (
    float.fromhex(factor) for factor in ("0x1.98e616p-16", "-0x1.6c06dcp-10", "0x1.55553cp-5")
)
_SINE_9, _SINE_7, _SINE_5, _SINE_3 = (
    float.fromhex(factor) for factor in ("0x1.7d3bbcp-19", "-0x1.a06bbap-13", "0x1.11119ap-7", "-0x1.555556p-3")
)
_ROUNDING = 1.5 * 2.0**23
"""A float32 that has no bits for fractions: adding it rounds to an integer."""


def single(value: float) -> float:
    """Round to float32."""
    return float(np.float64(np.float32(value)))  # float() of a float32 is a float32 in Numba


def squared_single(value: float) -> float:
    """`x ** 2` of a np.float32 is the C library's powf: in one of a thousand cases its last bit differs from x * x."""
    return single(np.float32(value) ** np.float32(2.0))  # type: ignore[arg-type]  # a float, see `single`


def sample_of_three(rng: Generator, first: float, second: float, third: float) -> int:
    """Gymnasium's categorical_sample. A draw above the sum of the three, which rounding allows, gives the first."""
    drawn = random(rng)
    if drawn < first:
        return 0
    if drawn < first + second:
        return 1
    return 2 if drawn < first + second + third else 0


def cosine_single(angle: float) -> float:
    """`np.cos` of a np.float32."""
    return _quarter_turns(angle, 1)


def sine_single(angle: float) -> float:
    """`np.sin` of a np.float32."""
    return _quarter_turns(angle, 0)


def _quarter_turns(angle: float, ahead: int) -> float:
    """The sine of an angle and some quarter turns, as NumPy's vector code for float32 rounds it.

    NumPy subtracts the nearest multiple of pi / 2, in three parts, and evaluates one of two polynomials with fused
    multiplications and additions (loops_trigonometric.dispatch.cpp of NumPy). A product of two float32 is exact in
    float64; the addition there rounds once more, which changes about one result in 2 ** 29.
    """
    turns = single(single(single(angle * _TWO_OVER_PI) + _ROUNDING) - _ROUNDING)
    rest = single(single(single(angle - turns * _HIGH) - turns * _MIDDLE) - turns * _LOW)
    square = single(rest * rest)
    quadrant = int(turns) + ahead
    if quadrant % 2 == 0:
        series = single(single(_SINE_9 * square + _SINE_7) * square + _SINE_5)
        result = single(single(single(series * square + _SINE_3) * square) * rest + rest)
    else:
        series = single(single(_COSINE_8 * square + _COSINE_6) * square + _COSINE_4)
        result = single(single(series * square - 0.5) * square + 1.0)
    return -result if quadrant % 4 >= 2 else result
