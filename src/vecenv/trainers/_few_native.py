"""Native code of `_few.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import float32_at, int64_at

GIVEN, ROWS, DEPTH, TANH, ROOM, WIDEST, OUTPUTS, VALUES, LAYERS = range(9)
"""Words of the table: features [ROWS, inputs], how many layers are before actor and critic, whether the activation is
tanh (or relu), room for two times ROWS * WIDEST numbers, where the results go, and then the words of all layers."""
WEIGHT, BIAS, INPUTS, SIZE, WORDS = range(5)
"""Words of each layer: addresses and sizes. The last two layers are actor and critic, whose weights are transposed,
[size, inputs]."""


def forward(table: int) -> int:
    """Outputs of an actor and a critic with separate layers, each a stack of weights [2, inputs, size]."""
    words = int64_at(table, LAYERS)
    rows, depth = words[ROWS], words[DEPTH]
    layers = int64_at(table + 8 * LAYERS, WORDS * (depth + 2))
    for stack in range(2):
        given, inputs = words[GIVEN], layers[INPUTS]
        for layer in range(depth):
            at = layer * WORDS
            size = layers[at + SIZE]
            weight = layers[at + WEIGHT] + 4 * stack * inputs * size
            bias, room = layers[at + BIAS] + 4 * stack * size, words[ROOM] + 4 * (layer % 2) * rows * words[WIDEST]
            multiply(given, weight, bias, room, rows, inputs, size)
            activate(float32_at(room, rows * size), words[TANH])
            given, inputs = room, size
        head = layers[WORDS * (depth + stack) :]
        out = words[OUTPUTS] if stack == 0 else words[VALUES]
        multiply_transposed(given, head[WEIGHT], head[BIAS], out, rows, inputs, head[SIZE])
    return 0


# --- parts -----------------------------------------------------------------------------------------------------------


def multiply(given, weight, bias, out, rows, inputs, size):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """Write given [rows, inputs] @ weight [inputs, size] + bias, all of them addresses.

    Each loop over columns begins at index 0 of a view: the compiler turns no other loops into vector instructions.
    """
    biases = float32_at(bias, size)
    for row in range(rows):
        factors, sums = float32_at(given + 4 * row * inputs, inputs), float32_at(out + 4 * row * size, size)
        for column in range(size):
            sums[column] = biases[column]
        whole = inputs // 4 * 4
        for place in range(0, whole, 4):  # four at a time: sums are read and written less often
            at, wide = weight + 4 * place * size, 4 * size
            first, second = float32_at(at, size), float32_at(at + wide, size)
            third, fourth = float32_at(at + 2 * wide, size), float32_at(at + 3 * wide, size)
            for column in range(size):
                sums[column] += (
                    factors[place] * first[column]
                    + factors[place + 1] * second[column]
                    + factors[place + 2] * third[column]
                    + factors[place + 3] * fourth[column]
                )
        for place in range(whole, inputs):
            weights = float32_at(weight + 4 * place * size, size)
            for column in range(size):
                sums[column] += factors[place] * weights[column]


def multiply_transposed(given, weight, bias, out, rows, inputs, size):  # type: ignore[no-untyped-def]
    """Write given [rows, inputs] @ weight [size, inputs].T + bias, all of them addresses, for few columns."""
    biases = float32_at(bias, size)
    whole = inputs // 4 * 4
    for row in range(rows):
        factors, results = float32_at(given + 4 * row * inputs, inputs), float32_at(out + 4 * row * size, size)
        for column in range(size):
            weights = float32_at(weight + 4 * column * inputs, inputs)
            first = second = third = fourth = np.float32(0.0)  # four sums: an addition waits for the one before it
            for place in range(0, whole, 4):
                first += factors[place] * weights[place]
                second += factors[place + 1] * weights[place + 1]
                third += factors[place + 2] * weights[place + 2]
                fourth += factors[place + 3] * weights[place + 3]
            for place in range(whole, inputs):
                first += factors[place] * weights[place]
            results[column] = biases[column] + ((first + second) + (third + fourth))


def activate(hidden, tanh):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """The tanh of all numbers up to 2e-7, or their relu. NaN stays NaN."""
    if not tanh:
        for at in range(len(hidden)):
            hidden[at] = np.float32(0.0) if hidden[at] < np.float32(0.0) else hidden[at]
        return
    # A quotient of polynomials, as in Eigen and XLA: a loop without calls, which the compiler turns into vectors.
    limit = np.float32(7.90531110763549805)
    for at in range(len(hidden)):
        x = hidden[at]
        x = limit if x > limit else x
        x = -limit if x < -limit else x
        square = x * x
        above = square * np.float32(-2.76076847742355e-16) + np.float32(2.00018790482477e-13)
        above = square * above + np.float32(-8.60467152213735e-11)
        above = square * above + np.float32(5.12229709037114e-08)
        above = square * above + np.float32(1.48572235717979e-05)
        above = square * above + np.float32(6.37261928875436e-04)
        above = square * above + np.float32(4.89352455891786e-03)
        below = square * np.float32(1.19825839466702e-06) + np.float32(1.18534705686654e-04)
        below = square * below + np.float32(2.26843463243900e-03)
        below = square * below + np.float32(4.89352518554385e-03)
        hidden[at] = x * above / below
