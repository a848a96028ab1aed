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
    stacks, rows, size = words[3], words[4], words[5]
    outputs, derivatives = float32_at(words[0], stacks * rows * size), float32_at(words[1], stacks * rows * size)
    sums, block = float32_at(words[2], stacks * size), float32_at(words[7], size)
    zero, one = np.float32(0.0), np.float32(1.0)
    for stack in range(stacks):
        begin = stack * size
        for column in range(size):
            sums[begin + column] = zero
        for first in range(0, rows, BLOCK):
            for column in range(size):
                block[column] = zero
            for row in range(first, min(first + BLOCK, rows)):
                at = (stack * rows + row) * size
                if words[6]:
                    for column in range(size):
                        derivative = derivatives[at + column] * (one - outputs[at + column] * outputs[at + column])
                        derivatives[at + column] = derivative
                        block[column] += derivative
                else:
                    for column in range(size):
                        derivative = derivatives[at + column] * (one if outputs[at + column] > zero else zero)
                        derivatives[at + column] = derivative
                        block[column] += derivative
            for column in range(size):
                sums[begin + column] += block[column]
    return 0


def linear_backward(table: int) -> int:
    """Derivatives of a layer with few outputs by its weights [outputs, size], biases, and by what it was given.

    Words of the table: derivatives by outputs [rows, outputs], what was given [rows, size], weights, where the three
    results go, rows, outputs, size, and room for [outputs, size] and [outputs].
    """
    words = int64_at(table, 10)
    rows, outputs, size = words[6], words[7], words[8]
    derivatives, given = float32_at(words[0], rows * outputs), float32_at(words[1], rows * size)
    weight, for_weight = float32_at(words[2], outputs * size), float32_at(words[3], outputs * size)
    for_bias, for_given = float32_at(words[4], outputs), float32_at(words[5], rows * size)
    block = float32_at(words[9], outputs * size)
    block_bias = float32_at(words[9] + 4 * outputs * size, outputs)
    for_weight[:], for_bias[:] = np.float32(0.0), np.float32(0.0)
    for first in range(0, rows, BLOCK):
        block[:], block_bias[:] = np.float32(0.0), np.float32(0.0)
        for row in range(first, min(first + BLOCK, rows)):
            begin = row * size
            for column in range(size):
                for_given[begin + column] = np.float32(0.0)
            for output in range(outputs):
                derivative, at = derivatives[row * outputs + output], output * size
                block_bias[output] += derivative
                for column in range(size):
                    for_given[begin + column] += derivative * weight[at + column]
                for column in range(size):
                    block[at + column] += derivative * given[begin + column]
        for column in range(outputs * size):
            for_weight[column] += block[column]
        for output in range(outputs):
            for_bias[output] += block_bias[output]
    return 0
