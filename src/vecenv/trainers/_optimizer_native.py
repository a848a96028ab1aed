"""Native code of `_optimizer.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import math

import numpy as np

from vecenv.kernel.numba.functions import float32_at, float64_at, int64_at


def adam(table: int) -> int:
    """One step of Adam, in one pass. Words of the table: vector, gradient, mean, square, count, numbers.

    Numbers: what square roots are multiplied by, what is added to them, and what steps are multiplied by.
    """
    words = int64_at(table, 6)
    count, numbers = words[4], float64_at(words[5], 3)
    vector, gradient = float32_at(words[0], count), float32_at(words[1], count)
    mean, square = float32_at(words[2], count), float32_at(words[3], count)
    correction, eps, rate = np.float32(numbers[0]), np.float32(numbers[1]), np.float32(numbers[2])
    for at in range(count):
        given = gradient[at]
        mean[at] += np.float32(0.1) * (given - mean[at])
        square[at] = square[at] * np.float32(0.999) + np.float32(0.001) * given * given
        vector[at] += rate * mean[at] / (np.float32(math.sqrt(square[at])) * correction + eps)
    return 0
