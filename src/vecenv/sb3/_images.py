"""Which spaces are images, and where their channels are: Stable-Baselines3's heuristics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from gymnasium import Space, spaces


def is_image_space(space: Space[Any]) -> bool:
    """Whether it is a three-dimensional uint8 Box of values 0 ... 255."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) == 3
        and space.dtype == np.uint8
        and bool(np.all(space.low == 0) and np.all(space.high == 255))
    )


def is_channels_first(space: spaces.Box) -> bool:
    """Whether the first axis of an image is the channels: whether it is the shortest one.

    If the second axis is the shortest, there is a warning and the channels are assumed to be last.
    """
    shortest = int(np.argmin(space.shape))
    if shortest == 1:
        warnings.warn(
            "Treating image space as channels-last, while second dimension was smallest of the three.", stacklevel=2
        )
    return shortest == 0
