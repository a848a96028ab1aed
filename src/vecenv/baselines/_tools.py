"""Helpers that Baselines exported next to its vector envs."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np


class CloudpickleWrapper:
    """Holds `x` and is pickled with cloudpickle, so that lambdas and local classes reach other processes."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __reduce__(self) -> Any:
        return _unpickle, (cloudpickle.dumps(self.x),)


def _unpickle(data: bytes) -> CloudpickleWrapper:
    return CloudpickleWrapper(pickle.loads(data))


def tile_images(images: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Arrange N images of one shape [height, width, channels] in a grid that is as square as possible, row by row.

    The grid has ceil(sqrt(N)) rows; places without an image are black.
    """
    stacked = np.asarray(images)
    count, height, width, channels = stacked.shape
    rows = math.ceil(math.sqrt(count))
    columns = math.ceil(count / rows)
    grid = np.zeros((rows * columns, height, width, channels), stacked.dtype)
    grid[:count] = stacked
    grid = grid.reshape(rows, columns, height, width, channels)
    return grid.swapaxes(1, 2).reshape(rows * height, columns * width, channels)
