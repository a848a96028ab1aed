"""Native code of `_few.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import float32_at, int64_at

GIVEN, ROWS, LAYERS, DEPTH, TANH, ROOM, WIDEST, OUTPUTS, VALUES = range(9)
"""Words of the table: features [ROWS, inputs], the table of layers and how many of them are before actor and critic,
whether the activation is tanh (or relu), room for two times ROWS * WIDEST numbers, and where the results go."""
WEIGHT, BIAS, INPUTS, SIZE, WORDS = range(5)
"""Words of each layer: addresses and sizes. The last two layers are actor and critic, whose weights are transposed,
[size, inputs]."""


def forward(table: int) -> int:
    """Outputs of an actor and a critic with separate layers, each a stack of weights [2, inputs, size]."""
    words = int64_at(table, 9)
    rows, depth = words[ROWS], words[DEPTH]
    layers = int64_at(words[LAYERS], WORDS * (depth + 2))
    for stack in range(2):
        given, inputs = words[GIVEN], layers[INPUTS]
        for layer in range(depth):
            at = layer * WORDS
            size = layers[at + SIZE]
            weight = float32_at(layers[at + WEIGHT] + 4 * stack * inputs * size, inputs * size)
            bias = float32_at(layers[at + BIAS] + 4 * stack * size, size)
            room = words[ROOM] + 4 * (layer % 2) * rows * words[WIDEST]
            hidden = float32_at(room, rows * size)
            multiply(float32_at(given, rows * inputs), weight, bias, hidden, rows, inputs, size)
            activate(hidden, words[TANH])
            given, inputs = room, size
        head = layers[WORDS * (depth + stack) :]
        size, out = head[SIZE], words[OUTPUTS] if stack == 0 else words[VALUES]
        weight, bias = float32_at(head[WEIGHT], inputs * size), float32_at(head[BIAS], size)
        hidden, results = float32_at(given, rows * inputs), float32_at(out, rows * size)
        multiply_transposed(hidden, weight, bias, results, rows, inputs, size)
    return 0


# --- parts -----------------------------------------------------------------------------------------------------------


def multiply(given, weight, bias, out, rows, inputs, size):  # type: ignore[no-untyped-def]  # compiled for its arguments
    """Write given [rows, inputs] @ weight [inputs, size] + bias."""
    for row in range(rows):
        begin = row * size
        for column in range(size):
            out[begin + column] = bias[column]
        for place in range(inputs):
            factor, at = given[row * inputs + place], place * size
            for column in range(size):
                out[begin + column] += factor * weight[at + column]


def multiply_transposed(given, weight, bias, out, rows, inputs, size):  # type: ignore[no-untyped-def]
    """Write given [rows, inputs] @ weight [size, inputs].T + bias, for few columns."""
    for row in range(rows):
        begin = row * size
        for column in range(size):
            out[begin + column] = bias[column]
        for place in range(inputs):
            factor = given[row * inputs + place]
            for column in range(size):
                out[begin + column] += factor * weight[column * inputs + place]


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
