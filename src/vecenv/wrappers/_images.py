"""Wrappers of pictures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import map_tree
from vecenv._util.screens import load_resize
from vecenv.errors import SpaceError
from vecenv.kernel.numba.functions import address_of, native_function
from vecenv.wrappers._observations import ObservationFunction, as_space, check_box, is_image, map_space
from vecenv.wrappers._wrapper import Wrapper


class TransposeImage(Wrapper):
    """Pictures [height, width, channels] as contiguous [channels, height, width], as PyTorch expects them.

    In dicts and tuples, only pictures (three axes, uint8, 0 to 255) are turned. Directly around a
    `FrameStackObservation` that joins channels, nothing is copied.

    Args:
        env: the vector env.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env, Transpose())


class GrayscaleObservation(Wrapper):
    """RGB pictures in grey, with the weights and the rounding of Gymnasium.

    Args:
        env: the vector env.
        keep_dim: whether to keep an axis of one channel.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, keep_dim: bool = False) -> None:
        super().__init__(env, Grayscale(keep_dim))
        self.keep_dim = keep_dim


class ResizeObservation(Wrapper):
    """Pictures of another size, by OpenCV's "area" interpolation.

    Args:
        env: the vector env.
        shape: height and width.

    Raises:
        MissingExtra: OpenCV is not installed.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, shape: tuple[int, int]) -> None:
        super().__init__(env, Resize(shape))
        self.shape = tuple(shape)


# --- transforms ------------------------------------------------------------------------------------------------------


class Transpose(ObservationFunction):
    """Channels first."""

    def space(self, space: Space[Any]) -> Space[Any]:
        whole = isinstance(space, spaces.Box)
        if whole and len(space.shape) != 3:
            raise SpaceError(f"Transpose needs observations [height, width, channels], got {space}")
        self._chosen = map_space(lambda leaf: whole or is_image(leaf), space)

        def turned(leaf: Any) -> Space[Any]:
            if not (whole or is_image(leaf)):
                return leaf
            return spaces.Box(leaf.low.transpose(2, 0, 1), leaf.high.transpose(2, 0, 1), dtype=leaf.dtype)

        return as_space(map_space(turned, space))

    def function(self, obs: Any) -> Any:
        def turned(chosen: bool, leaf: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(leaf.transpose(0, 3, 1, 2)) if chosen else leaf

        return map_tree(turned, self._chosen, obs)


class Grayscale(ObservationFunction):
    """Grey."""

    def __init__(self, keep_dim: bool) -> None:
        self._keep = bool(keep_dim)

    def space(self, space: Space[Any]) -> Space[Any]:
        if not is_image(space) or check_box(space, self).shape[2] != 3:
            raise SpaceError(f"Grayscale needs pictures [height, width, 3] of bytes from 0 to 255, got {space}")
        self._shape = (*check_box(space, self).shape[:2], *((1,) if self._keep else ()))
        return spaces.Box(0, 255, self._shape, np.uint8)

    def function(self, obs: Any) -> Any:
        colours = np.ascontiguousarray(obs)
        greys = np.empty((len(colours), *self._shape), np.uint8)
        table = np.array([address_of(colours), address_of(greys), greys.size])
        _native_grayscale()(address_of(table))
        return greys


class Resize(ObservationFunction):
    """Another size."""

    def __init__(self, shape: tuple[int, int]) -> None:
        if not isinstance(shape, tuple) or len(shape) != 2 or not all(_is_size(size) for size in shape):
            raise SpaceError(f"shape must be (height, width), two positive ints, got {shape!r}")
        self._height, self._width = (int(size) for size in shape)
        self._resize = load_resize("ResizeObservation")

    def space(self, space: Space[Any]) -> Space[Any]:
        box = check_box(space, self)
        whole = np.all(box.low == 0) and np.all(box.high == 255)
        if box.dtype != np.uint8 or len(box.shape) not in (2, 3) or not whole:
            raise SpaceError(f"Resize needs pictures of bytes from 0 to 255, got {space}")
        self._shape = (self._height, self._width, *box.shape[2:])
        return spaces.Box(0, 255, self._shape, np.uint8)

    def function(self, obs: Any) -> Any:
        resized = np.empty((len(obs), *self._shape), np.uint8)
        for picture, target in zip(np.ascontiguousarray(obs), resized, strict=True):
            target[:] = self._resize(picture, (self._width, self._height)).reshape(self._shape)
        return resized


@functools.cache
def _native_grayscale() -> Callable[[int], None]:
    from vecenv.wrappers import _images_native

    return native_function(_images_native.grayscale)


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and int(size) > 0
