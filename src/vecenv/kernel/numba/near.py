"""What the GNU C library's sin and cos give, mostly without calling them. Needs Numba.

The error of its results is below 0.55 units in the last place (sysdeps/ieee754/dbl-64/s_sin.c). So where the exact
value is less than 0.45 units away from a float, that float is the result: no other one is near enough. Here the exact
value is computed as a sum of two floats, without branches, so that LLVM computes it for several envs with one
instruction. Where that is too far away from a float, NaN is returned: for about one value in eight. The row loop then
calls the C library (`early.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from vecenv.kernel.numba.math import NATIVE, bits_of_double, fused

_INLINED = {**NATIVE, "forceinline": True}
_LARGEST = 1000.0
"""Of larger numbers multiples of pi/2 are not subtracted exactly enough."""
_SMALLEST = 1e-7
"""Nearer to a multiple of pi/2 the rest has too few correct digits."""
_WHOLE = 6755399441055744.0
"""1.5 * 2**52: floats near it are whole numbers, and the last bits of such a float are those of the number."""


@njit(**_INLINED)
def _reduced(x: Any) -> Any:
    """The multiple of pi/2 that is nearest to x (its last bits count), and the rest of x as a sum of two floats.

    pi/2 is taken in three parts. The product with the first one is exact, and so is the difference.
    """
    shifted = fused(x, 0.6366197723675814, _WHOLE)
    turns = _WHOLE - shifted
    first = fused(turns, 1.57079632673412561417e00, x)
    rest = fused(turns, 6.07710050630396597660e-11, first)
    low = fused(turns, 6.07710050630396597660e-11, first - rest)
    return bits_of_double(shifted), rest, fused(turns, 2.02226624879595063154e-21, low)


@njit(**_INLINED)
def _sin_sum(x: Any, dx: Any, z: Any, dz: Any) -> Any:
    """sin(x + dx) as a sum of two floats, |x| <= pi/4. z + dz is the square of x + dx."""
    z2 = z * z
    first = fused(z, -1.984126984126984e-04, 8.333333333333333e-03)
    second = fused(z, -2.505210838544172e-08, 2.7557319223985893e-06)
    third = fused(z, -7.647163731819816e-13, 1.6059043836821613e-10)
    third = fused(z2, 2.8114572543455206e-15, third)
    inner = z2 * fused(z2, fused(z2, third, second), first)
    cubic = z * -1.6666666666666666e-01
    low = fused(z, -1.6666666666666666e-01, -cubic) + fused(dz, -1.6666666666666666e-01, z * -9.25185853854297e-18)
    factor = cubic + inner
    low += (cubic - factor) + inner
    product = x * factor
    low = fused(x, low, fused(x, factor, -product)) + fused(dx, factor, dx)
    near = x + product
    low += (x - near) + product
    high = near + low
    return high, (near - high) + low


@njit(**_INLINED)
def _cos_sum(z: Any, dz: Any) -> Any:
    """cos(x) as a sum of two floats, |x| <= pi/4. z + dz is the square of x."""
    z2 = z * z
    first = fused(z, 2.48015873015873e-05, -1.388888888888889e-03)
    second = fused(z, 2.08767569878681e-09, -2.7557319223985888e-07)
    third = fused(z, 4.779477332387385e-14, -1.1470745597729725e-11)
    inner = fused(z2, fused(z2, third, second), first)
    fourth = fused(z, inner, 4.1666666666666664e-02)
    low = fused(dz, fused(z, 8.333333333333333e-02, -0.5), z2 * fourth)
    half = 0.5 * z
    near = 1.0 - half
    low += (1.0 - near) - half
    high = near + low
    return high, (near - high) + low


@njit(**_INLINED)
def _known(x: Any, rest: Any, high: Any, low: Any, negative: Any) -> Any:
    """The float of a sum of two, or NaN if the C library's result might be its neighbour.

    The sum is wrong by at most 0.003 + 0.12 * rest**4 units (tests/kernels/test_near.py). Half a unit divided by
    `further` is at most 0.45 units less that error.
    """
    square = rest * rest
    further = fused(square * square, 0.35, 1.125)
    sure = (fused(low, further, high) == high) & (abs(x) <= _LARGEST) & (abs(rest) >= _SMALLEST)
    value = -high if negative else high
    return value if sure else np.nan


@njit(**_INLINED)
def near_sin(x: Any) -> Any:
    """sin(x) as the C library computes it, or NaN."""
    turns, rest, low = _reduced(x)
    z = rest * rest
    dz = fused(2.0 * rest, low, fused(rest, rest, -z))
    sine, sine_low = _sin_sum(rest, low, z, dz)
    cosine, cosine_low = _cos_sum(z, dz)
    is_cosine = turns & 1 != 0
    return _known(x, rest, cosine if is_cosine else sine, cosine_low if is_cosine else sine_low, turns & 2 != 0)


@njit(**_INLINED)
def near_cos(x: Any) -> Any:
    """cos(x) as the C library computes it, or NaN."""
    turns, rest, low = _reduced(x)
    z = rest * rest
    dz = fused(2.0 * rest, low, fused(rest, rest, -z))
    sine, sine_low = _sin_sum(rest, low, z, dz)
    cosine, cosine_low = _cos_sum(z, dz)
    is_sine = turns & 1 != 0
    return _known(x, rest, sine if is_sine else cosine, sine_low if is_sine else cosine_low, (turns + 1) & 2 != 0)
