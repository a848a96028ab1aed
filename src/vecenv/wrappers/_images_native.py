"""Native code of `_images.py`; see `kernel/numba/functions.py` for how it is compiled."""

from __future__ import annotations

import numpy as np

from vecenv.kernel.numba.functions import int64_at, uint8_at


def grayscale(table: int) -> int:
    """Words: address of pixels of three bytes, address of grey ones, their number. Adds in Gymnasium's order."""
    words = int64_at(table, 3)
    colours, greys = uint8_at(words[0], 3 * words[2]), uint8_at(words[1], words[2])
    for pixel in range(words[2]):
        red, green, blue = colours[3 * pixel], colours[3 * pixel + 1], colours[3 * pixel + 2]
        greys[pixel] = np.uint8(red * 0.2125 + green * 0.7154 + blue * 0.0721)
    return 0
