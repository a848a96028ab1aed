"""Native code of `_layers.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import float32_at, int64_at

BLOCK = 256
"""Rows that are summed before they are added to the sum of all: one float32 would lose digits over many rows."""


def behind_activation(table: int) -> int:
    """Derivatives by what an activation was given, in place, and their sums over rows, which are those by biases.

    Words of the table: outputs of the activation [stacks, rows, size], derivatives by them, where the sums go
    [stacks, size], stacks, rows, size, whether the activation is tanh (or relu), and room for [size].
    """
    words = int64_at(table, 8)
    stacks, rows, size, tanh = words[3], words[4], words[5], words[6]
    block = float32_at(words[7], size)
    for stack in range(stacks):
        sums = float32_at(words[2] + 4 * stack * size, size)
        sums[:] = np.float32(0.0)
        for first in range(0, rows, BLOCK):
            block[:] = np.float32(0.0)
            for row in range(first, min(first + BLOCK, rows)):
                at = 4 * (stack * rows + row) * size
                outputs, derivatives = float32_at(words[0] + at, size), float32_at(words[1] + at, size)
                if tanh:
                    for column in range(size):
                        derivatives[column] *= np.float32(1.0) - outputs[column] * outputs[column]
                else:
                    for column in range(size):
                        derivatives[column] *= np.float32(outputs[column] > np.float32(0.0))
                for column in range(size):
                    block[column] += derivatives[column]
            for column in range(size):
                sums[column] += block[column]
    return 0


def linear_backward(table: int) -> int:
    """Derivatives of a layer with few outputs by its weights [outputs, size], biases, and by what it was given.

    Words of the table: derivatives by outputs [rows, outputs], what was given [rows, size], weights, where the three
    results go, rows, outputs, size, and room for [outputs, size] and [outputs].
    """
    words = int64_at(table, 10)
    rows, outputs, size = words[6], words[7], words[8]
    derivatives = float32_at(words[0], rows * outputs)
    for_weight, for_bias = float32_at(words[3], outputs * size), float32_at(words[4], outputs)
    block, block_bias = float32_at(words[9], outputs * size), float32_at(words[9] + 4 * outputs * size, outputs)
    for_weight[:], for_bias[:] = np.float32(0.0), np.float32(0.0)
    for first in range(0, rows, BLOCK):
        block[:], block_bias[:] = np.float32(0.0), np.float32(0.0)
        for row in range(first, min(first + BLOCK, rows)):
            given, for_given = float32_at(words[1] + 4 * row * size, size), float32_at(words[5] + 4 * row * size, size)
            for_given[:] = np.float32(0.0)
            for output in range(outputs):
                derivative = derivatives[row * outputs + output]
                block_bias[output] += derivative
                weight = float32_at(words[2] + 4 * output * size, size)
                of_weight = float32_at(words[9] + 4 * output * size, size)
                for column in range(size):
                    for_given[column] += derivative * weight[column]
                for column in range(size):
                    of_weight[column] += derivative * given[column]
        for column in range(outputs * size):
            for_weight[column] += block[column]
        for output in range(outputs):
            for_bias[output] += block_bias[output]
    return 0
