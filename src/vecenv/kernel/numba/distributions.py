"""NumPy's distributions as native code, bit for bit: the twins of the functions of `rng.py` that draw one number.

The algorithms are those that NumPy documents: the ziggurats of Marsaglia and Tsang for normal and exponential numbers,
Hörmann's transformed rejection (PTRS, 1993) for Poisson numbers, Kachitvichyanukul and Schmeiser's BTPE (1988) for
binomial ones. Every operation is done in NumPy's order, because a rounding may decide whether a number is rejected.
`log`, `exp` and `log1p` are the C library's, as NumPy's. What NumPy keeps from one draw to the next (the setup for the
last `n` and `p` of `binomial`) is computed anew and has the same bits. The tables of the ziggurats are those that Numba
has for its own `Generator`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numba.np.random import _constants as tables

from vecenv.kernel.numba.math import NATIVE
from vecenv.kernel.numba.pcg64 import next_word, random

_ONE = np.uint64(1)
_EXACT_FOR_SMALL_P = np.random.Generator(np.random.PCG64(0)).binomial(2 * 10**18, 1e-17) > 0
"""Whether this NumPy's binomial numbers are right where 1 - p is 1; those of older versions are 0 (numpy#29522)."""
_LARGEST = np.int64(2**63 - 1)
_NORMAL_BOUNDS = np.array(tables.ki_double, np.uint64)
_NORMAL_WIDTHS = np.array(tables.wi_double, np.float64)
_NORMAL_HEIGHTS = np.array(tables.fi_double, np.float64)
_NORMAL_EDGE, _NORMAL_INVERSE_EDGE = float(tables.ziggurat_nor_r), float(tables.ziggurat_nor_inv_r)
_EXPONENTIAL_BOUNDS = np.array(tables.ke_double, np.uint64)
_EXPONENTIAL_WIDTHS = np.array(tables.we_double, np.float64)
_EXPONENTIAL_HEIGHTS = np.array(tables.fe_double, np.float64)
_EXPONENTIAL_EDGE = float(tables.ziggurat_exp_r)

_LOG_2_PI = 1.8378770664093453
_STIRLING = np.array(
    [
        8.333333333333333e-02,
        -2.777777777777778e-03,
        7.936507936507937e-04,
        -5.952380952380952e-04,
        8.417508417508418e-04,
        -1.917526917526918e-03,
        6.410256410256410e-03,
        -2.955065359477124e-02,
        1.796443723688307e-01,
        -1.39243221690590e00,
    ]
)
"""Coefficients of Stirling's series, rounded to as many digits as NumPy has of them."""


# --- normal and exponential ------------------------------------------------------------------------------------------


@njit(**NATIVE)
def standard_normal(rng: Any) -> Any:
    while True:
        word = next_word(rng)
        layer = np.int64(word & np.uint64(0xFF))
        word = word >> np.uint64(8)
        place = (word >> _ONE) & np.uint64(0x000FFFFFFFFFFFFF)
        x = place * _NORMAL_WIDTHS[layer]
        if word & _ONE:
            x = -x
        if place < _NORMAL_BOUNDS[layer]:
            return x
        if layer == 0:
            while True:
                beyond = -_NORMAL_INVERSE_EDGE * math.log1p(-random(rng))
                height = -math.log1p(-random(rng))
                if height + height > beyond * beyond:
                    negative = (place >> np.uint64(8)) & _ONE
                    return -(_NORMAL_EDGE + beyond) if negative else _NORMAL_EDGE + beyond
        low, high = _NORMAL_HEIGHTS[layer], _NORMAL_HEIGHTS[layer - 1]
        if (high - low) * random(rng) + low < math.exp(-0.5 * x * x):
            return x


@njit(**NATIVE)
def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return loc + scale * standard_normal(rng)


@njit(**NATIVE)
def standard_exponential(rng: Any) -> Any:
    while True:
        word = next_word(rng) >> np.uint64(3)
        layer = np.int64(word & np.uint64(0xFF))
        place = word >> np.uint64(8)
        x = place * _EXPONENTIAL_WIDTHS[layer]
        if place < _EXPONENTIAL_BOUNDS[layer]:
            return x
        if layer == 0:
            return _EXPONENTIAL_EDGE - math.log1p(-random(rng))
        low, high = _EXPONENTIAL_HEIGHTS[layer], _EXPONENTIAL_HEIGHTS[layer - 1]
        if (high - low) * random(rng) + low < math.exp(-x):
            return x


@njit(**NATIVE)
def exponential(rng: Any, scale: Any = 1.0) -> Any:
    return scale * standard_exponential(rng)


# --- poisson and geometric -------------------------------------------------------------------------------------------


@njit(**NATIVE)
def poisson(rng: Any, lam: Any = 1.0) -> Any:
    lam = float(lam)
    if lam >= 10.0:
        return _poisson_of_many(rng, lam)
    count = np.int64(0)
    if lam == 0.0:
        return count
    limit = math.exp(-lam)
    product = random(rng)
    while product > limit:
        product *= random(rng)
        count += 1
    return count


@njit(**NATIVE)
def _poisson_of_many(rng: Any, lam: Any) -> Any:
    """PTRS; a, b and 1 / alpha are the paper's."""
    log_lam = math.log(lam)
    b = 0.931 + 2.53 * math.sqrt(lam)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    surely_accepted = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = random(rng) - 0.5
        v = random(rng)
        rim = 0.5 - abs(u)
        count = np.int64(np.floor((2.0 * a / rim + b) * u + lam + 0.43))
        if rim >= 0.07 and v <= surely_accepted:
            return count
        if count < 0 or (rim < 0.013 and v > rim):
            continue
        drawn = _log(v) + log_inverse_alpha - math.log(a / (rim * rim) + b)
        if drawn <= -lam + count * log_lam - _log_gamma(float(count + 1)):
            return count


@njit(**NATIVE)
def _log(x: Any) -> Any:
    """The logarithm of a number that was drawn; it may be zero."""
    return math.log(x) if x > 0.0 else -np.inf


@njit(**NATIVE)
def _log_gamma(x: Any) -> Any:
    """The logarithm of (x - 1)!, by Stirling's series of a number that is at least 7."""
    if x == 1.0 or x == 2.0:
        return 0.0
    above = np.int64(7.0 - x) if x < 7.0 else np.int64(0)
    y = x + above
    inverse_square = (1.0 / y) * (1.0 / y)
    series = _STIRLING[9]
    for power in range(8, -1, -1):
        series = series * inverse_square + _STIRLING[power]
    value = series / y + 0.5 * _LOG_2_PI + (y - 0.5) * math.log(y) - y
    for _ in range(above):
        y -= 1.0
        value -= math.log(y)
    return value


@njit(**NATIVE)
def geometric(rng: Any, p: Any) -> Any:
    p = float(p)
    if p < 0.3333333333333333:
        trials = np.ceil(-standard_exponential(rng) / math.log1p(-p))
        return np.int64(trials) if trials < 9.223372036854776e18 else _LARGEST
    drawn = random(rng)
    chance = reached = p
    count = np.int64(1)
    while drawn > reached and chance > 0.0:  # a sum that rounds to less than 1 would never end; NumPy's does not
        chance *= 1.0 - p
        reached += chance
        count += 1
    return count


# --- binomial --------------------------------------------------------------------------------------------------------


@njit(**NATIVE)
def binomial(rng: Any, n: Any, p: Any) -> Any:
    n, p = np.int64(n), float(p)
    if n == 0 or p == 0.0:
        return np.int64(0)
    if p <= 0.5:
        return _successes(rng, n, p)
    return n - _successes(rng, n, 1.0 - p)


@njit(**NATIVE)
def _successes(rng: Any, n: Any, p: Any) -> Any:
    return _binomial_of_few(rng, n, p) if p * n <= 30.0 else _binomial_of_many(rng, n, p)


@njit(**NATIVE)
def _binomial_of_few(rng: Any, n: Any, p: Any) -> Any:
    """Inversion: the chances of 0, 1, 2, ... are taken off a uniform number until it is used up."""
    q, mean = 1.0 - p, n * p
    none = math.exp(n * (math.log1p(-p) if _EXACT_FOR_SMALL_P else math.log(q)))
    bound = np.int64(min(float(n), mean + 10.0 * math.sqrt(mean * q + 1.0)))
    count, chance, left = np.int64(0), none, random(rng)
    while left > chance:
        count += 1
        if count > bound:
            count, chance, left = np.int64(0), none, random(rng)
        else:
            left -= chance
            chance = ((n - count + 1) * p * chance) / (count * q)
    return count


@njit(**NATIVE)
def _binomial_of_many(rng: Any, n: Any, p: Any) -> Any:
    """BTPE: rejection below a triangle, two parallelograms and two exponential tails, for p <= 0.5."""
    q = 1.0 - p
    variance = n * p * q
    mode_at = n * p + p
    mode = np.int64(np.floor(mode_at))
    p1 = np.floor(2.195 * math.sqrt(variance) - 4.6 * q) + 0.5
    middle = mode + 0.5
    left, right = middle - p1, middle + p1
    c = 0.134 + 20.5 / (15.3 + mode)
    slope = (mode_at - left) / (mode_at - left * p)
    lambda_left = slope * (1.0 + slope / 2.0)
    slope = (right - mode_at) / (right * q)
    lambda_right = slope * (1.0 + slope / 2.0)
    p2 = p1 * (1.0 + 2.0 * c)
    p3 = p2 + c / lambda_left
    p4 = p3 + c / lambda_right
    while True:
        u = random(rng) * p4
        v = random(rng)
        if not u > p1:
            return np.int64(np.floor(middle - p1 * v + u))
        if u <= p2:
            x = left + (u - p1) / c
            v = v * c + 1.0 - abs(mode - x + 0.5) / p1
            if v > 1.0:
                continue
            y = np.int64(np.floor(x))
        elif v == 0.0:
            continue
        elif u <= p3:
            y = np.int64(np.floor(left + math.log(v) / lambda_left))
            if y < 0:
                continue
            v = v * (u - p2) * lambda_left
        else:
            y = np.int64(np.floor(right - math.log(v) / lambda_right))
            if y > n:
                continue
            v = v * (u - p3) * lambda_right
        distance = abs(y - mode)
        if distance <= 20 or distance >= variance / 2.0 - 1.0:
            if not v > _chance_ratio(n, p, q, mode, y):
                return y
        elif _is_below(n, p, q, mode, y, _log(v)):
            return y


@njit(**NATIVE)
def _chance_ratio(n: Any, p: Any, q: Any, mode: Any, y: Any) -> Any:
    """How likely y is, compared with the mode."""
    s = p / q
    a = s * (n + 1)
    ratio = 1.0
    for i in range(mode + 1, y + 1):
        ratio *= a / i - s
    for i in range(y + 1, mode + 1):
        ratio /= a / i - s
    return ratio


@njit(**NATIVE)
def _is_below(n: Any, p: Any, q: Any, mode: Any, y: Any, log_v: Any) -> Any:
    """Whether v is below the chance ratio of y, far from the mode: by a squeeze, else by Stirling's formula."""
    k, variance = abs(y - mode), n * p * q
    width = (k / variance) * ((k * (k / 3.0 + 0.625) + 0.16666666666666666) / variance + 0.5)
    normal_part = -k * k / (2.0 * variance)
    if log_v < normal_part - width:
        return True
    if log_v > normal_part + width:
        return False
    x, f, z, w = float(y + 1), float(mode + 1), float(n + 1 - mode), float(n - y + 1)
    bound = (mode + 0.5) * math.log(f / x) + (n - mode + 0.5) * math.log(z / w)
    bound += (y - mode) * math.log(w * p / (x * q))
    return not log_v > bound + _correction(f) + _correction(z) + _correction(x) + _correction(w)


@njit(**NATIVE)
def _correction(x: Any) -> Any:
    """What Stirling's formula leaves out."""
    square = x * x
    return (13680.0 - (462.0 - (132.0 - (99.0 - 140.0 / square) / square) / square) / square) / x / 166320.0
