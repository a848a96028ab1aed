"""Native code of `_layers.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import float32_at, int64_at


def behind_activation(table: int) -> int:
    """Derivatives by what an activation was given, in place, and their sums over rows, which are those by biases.

    Words of the table: outputs of the activation [stacks, rows, size], derivatives by them, where the sums go
    [stacks, size] (0: nowhere), stacks, rows, size, and whether the activation is tanh (or relu).
    """
    words = int64_at(table, 7)
    stacks, rows, size, tanh = words[3], words[4], words[5], words[6]
    outputs = float32_at(words[0], stacks * rows * size)
    derivatives = float32_at(words[1], stacks * rows * size)
    sums = float32_at(words[2], stacks * size if words[2] else 0)
    for at in range(len(outputs)):
        given = outputs[at]
        if tanh:
            derivatives[at] *= np.float32(1.0) - given * given
        else:
            derivatives[at] = derivatives[at] if given > np.float32(0.0) else derivatives[at] * np.float32(0.0)
    for place in range(len(sums)):
        sums[place] = np.float32(0.0)
    for line in range(stacks * rows if len(sums) else 0):
        begin = line // rows * size
        for column in range(size):
            sums[begin + column] += derivatives[line * size + column]
    return 0
