"""Native code of `_moments.py`; `kernel/numba/functions.py` compiles it.

Words of the table: batch, out, rows, columns, moments, scratch (addresses, and two sizes), clip (a float64). Moments
are mean, var and std of all columns, the count, the epsilon of std, a number that is 0 if the update left mean and var
finite and NaN otherwise, and two blocks of scratch. The other scratch is for a single column: a number per row.

Every sum is taken in NumPy's order, and in the type in which NumPy takes it, so that results are equal to the last bit.
Columns are worked on in blocks, so that a block is still in the cache when it is needed again.
"""

from __future__ import annotations

import math

import numpy as np

from vecenv.kernel.numba.functions import float32_at, float64_at, int64_at

values_at = float64_at
"""Of the batch."""
sums_at = float64_at
"""Of means and variances of the batch, in the type in which NumPy sums."""
number = np.float64
"""That type."""
size, sum_size = 8, 8
"""Bytes of a value of the batch, and of a sum."""
BLOCK = 512


def update(table: int) -> int:
    """Add a batch to the moments."""
    words = int64_at(table, 6)
    for begin in range(0, words[3], BLOCK):
        _update_columns(words, begin, min(BLOCK, words[3] - begin))
    _count(words)
    return 0


def normalize(table: int) -> int:
    """Write a normalized batch."""
    words, clip = int64_at(table, 6), float64_at(table + 48, 1)[0]
    for begin in range(0, words[3], BLOCK):
        _normalize_columns(words, begin, min(BLOCK, words[3] - begin), clip)
    return 0


def update_and_normalize(table: int) -> int:
    """Both, in one pass."""
    words, clip = int64_at(table, 6), float64_at(table + 48, 1)[0]
    for begin in range(0, words[3], BLOCK):
        width = min(BLOCK, words[3] - begin)
        _update_columns(words, begin, width)
        _normalize_columns(words, begin, width, clip)
    _count(words)
    return 0


def _count(words):  # type: ignore[no-untyped-def]  # Numba finds the types
    mean_and_var, numbers = float64_at(words[4], 2 * words[3]), float64_at(words[4] + 24 * words[3], 3)
    numbers[0] = numbers[0] + words[2]
    numbers[2] = 0.0
    for value in mean_and_var:
        numbers[2] += value - value


def _update_columns(words, begin, width):  # type: ignore[no-untyped-def]  # as above
    mean, var = float64_at(words[4] + 8 * begin, width), float64_at(words[4] + 8 * (words[3] + begin), width)
    std, numbers = float64_at(words[4] + 8 * (2 * words[3] + begin), width), float64_at(words[4] + 24 * words[3], 2)
    scratch = words[4] + 24 * (words[3] + 1)
    batch_mean, batch_var = sums_at(scratch, width), sums_at(scratch + 8 * width, width)
    if words[3] == 1:
        _moments_of_one(words, batch_mean, batch_var)
    else:
        _moments_of_columns(words, begin, width, batch_mean, batch_var)
    rows, count, epsilon = float(words[2]), numbers[0], numbers[1]
    total = count + rows
    for column in range(width):
        delta = float(batch_mean[column]) - mean[column]
        in_batch = float(batch_var[column] * number(rows))
        squares = var[column] * count + in_batch + delta * delta * count * rows / total
        mean[column] = mean[column] + delta * rows / total
        var[column] = squares / total
        std[column] = math.sqrt(squares / total + epsilon)


def _moments_of_columns(words, begin, width, mean, var):  # type: ignore[no-untyped-def]  # as above
    """NumPy adds row to row."""
    rows = number(words[2])
    for column in range(width):
        mean[column] = number(0.0)
        var[column] = number(0.0)
    for row in range(words[2]):
        values = values_at(words[0] + size * (row * words[3] + begin), width)
        for column in range(width):
            mean[column] += number(values[column])
    for column in range(width):
        mean[column] = mean[column] / rows
    for row in range(words[2]):
        values = values_at(words[0] + size * (row * words[3] + begin), width)
        for column in range(width):
            apart = number(values[column]) - mean[column]
            var[column] += apart * apart
    for column in range(width):
        var[column] = var[column] / rows


def _moments_of_one(words, mean, var):  # type: ignore[no-untyped-def]  # as above
    """A single column is contiguous: NumPy adds pairwise."""
    values, scratch = values_at(words[0], words[2]), sums_at(words[5], words[2])
    for row in range(words[2]):
        scratch[row] = number(values[row])
    average = _pairwise(words[5], words[2]) / number(words[2])
    for row in range(words[2]):
        apart = scratch[row] - average
        scratch[row] = apart * apart
    mean[0] = average
    var[0] = _pairwise(words[5], words[2]) / number(words[2])


def _pairwise(address, count):  # type: ignore[no-untyped-def]  # as above
    """NumPy's pairwise sum: few one by one, some in eight lanes, many as the sum of their halves."""
    if count > 128:
        half = count // 2
        half -= half % 8
        return _pairwise(address, half) + _pairwise(address + sum_size * half, count - half)
    values = sums_at(address, count)
    whole, total = count - count % 8, number(0.0)
    if whole:
        a, b, c, d, e, f, g, h = values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]
        for index in range(8, whole, 8):
            a += values[index]
            b += values[index + 1]
            c += values[index + 2]
            d += values[index + 3]
            e += values[index + 4]
            f += values[index + 5]
            g += values[index + 6]
            h += values[index + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for index in range(whole, count):
        total += values[index]
    return total


def _normalize_columns(words, begin, width, clip):  # type: ignore[no-untyped-def]  # as above
    mean, std = float64_at(words[4] + 8 * begin, width), float64_at(words[4] + 8 * (2 * words[3] + begin), width)
    for row in range(words[2]):
        start = row * words[3] + begin
        values, out = values_at(words[0] + size * start, width), float32_at(words[1] + 4 * start, width)
        for column in range(width):
            value = (float(values[column]) - mean[column]) / std[column]
            value = -clip if value < -clip else value
            value = clip if value > clip else value
            out[column] = np.float32(value)
