"""The steps of Atari preprocessing that the env, the vector wrapper and SB3's wrappers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv.errors import MissingExtra


def load_opencv(user: str) -> Any:
    """The module cv2. Raises MissingExtra, which says that `user` needs it, if it is not installed."""
    try:
        import cv2  # pyright: ignore[reportMissingImports]  # optional
    except ImportError as error:
        raise MissingExtra(f"{user} needs OpenCV: pip install 'vecenv[atari]'") from error
    return cv2


def load_resize(user: str) -> Callable[[np.ndarray, tuple[int, int]], np.ndarray]:
    """A function that returns a screen in another size (width, height), as a new array; see `load_opencv`."""
    cv2 = load_opencv(user)
    return lambda screen, size: cv2.resize(screen, size, interpolation=cv2.INTER_AREA)


def load_frame_maker(
    user: str, size: tuple[int, int], *, pools: bool
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that makes a frame of the newest screen of a game and the one before, as a new array.

    Args:
        user: see `load_opencv`.
        size: width and height of frames.
        pools: write what is brighter in either screen into the newest one first: games draw some sprites only in every
            other frame. A second frame of the same screens is then equal to the first.
    """
    resize = load_resize(user)

    def frame(newest: np.ndarray, older: np.ndarray) -> np.ndarray:
        if pools:
            np.maximum(newest, older, out=newest)
        return resize(newest, size)

    return frame


def life_lost(before: int, now: int) -> bool:
    """Whether a life was lost. In Qbert lives may be 0 for a few frames before the game is over; that is no loss."""
    return 0 < now < before


def clip_reward(reward: float) -> float:
    """The sign of a reward: -1, 0 or 1."""
    return float(np.sign(reward))
