"""Wrappers of pictures."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import map_tree
from vecenv._util.screens import load_resize
from vecenv.errors import SpaceError
from vecenv.kernel.numba.functions import address_of, native_function, table_of
from vecenv.wrappers._images_native import grayscale
from vecenv.wrappers._observations import Changed, ObservationFunction, check_box, has_bytes, is_image, map_space
from vecenv.wrappers._wrapper import Wrapper

_native = functools.cache(native_function)
_table = table_of("3q")


class TransposeImage(Wrapper):
    """Pictures [height, width, channels] as contiguous [channels, height, width], as PyTorch expects them.

    In dicts and tuples, only pictures (three axes, uint8, 0 to 255) are turned. Directly around a
    `FrameStackObservation` that joins channels, nothing is copied.

    Args:
        env: the vector env.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        def change(space: Space[Any]) -> Changed:
            whole = isinstance(space, spaces.Box)
            if whole and len(space.shape) != 3:
                raise SpaceError(f"TransposeImage needs observations [height, width, channels], got {space}")
            chosen = map_space(lambda leaf: whole or is_image(leaf), space)
            turned = map_space(lambda leaf: _turned(leaf) if whole or is_image(leaf) else leaf, space)
            return _as_space(turned), lambda obs: map_tree(_turned_batch, chosen, obs)

        super().__init__(env, ObservationFunction("TransposeImage", change))


class GrayscaleObservation(Wrapper):
    """RGB pictures in grey, with the weights and the rounding of Gymnasium.

    Args:
        env: the vector env.
        keep_dim: whether to keep an axis of one channel.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, keep_dim: bool = False) -> None:
        def change(space: Space[Any]) -> Changed:
            box = check_box(space, "GrayscaleObservation")
            if not is_image(box) or box.shape[2] != 3:
                raise SpaceError(f"GrayscaleObservation needs pictures [height, width, 3] of bytes, got {space}")
            shape = (*box.shape[:2], 1) if keep_dim else box.shape[:2]

            def grey(obs: np.ndarray) -> np.ndarray:
                colours = np.ascontiguousarray(obs)
                if colours.dtype != np.uint8 or colours.shape[1:] != box.shape:
                    raise SpaceError(
                        f"GrayscaleObservation got pictures {colours.dtype} {colours.shape[1:]}, the observation space "
                        f"says uint8 {box.shape}; correct the env or the wrapper below"
                    )
                greys = np.empty((len(colours), *shape), np.uint8)
                _native(grayscale)(_table(address_of(colours), address_of(greys), greys.size))
                return greys

            return spaces.Box(0, 255, shape, np.uint8), grey

        super().__init__(env, ObservationFunction("GrayscaleObservation", change))
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
        if not isinstance(shape, tuple) or len(shape) != 2 or not all(_is_size(size) for size in shape):
            raise SpaceError(f"shape must be (height, width), two positive ints, got {shape!r}")
        height, width = (int(size) for size in shape)
        resize = load_resize("ResizeObservation")

        def change(space: Space[Any]) -> Changed:
            box = check_box(space, "ResizeObservation")
            if not has_bytes(box) or len(box.shape) not in (2, 3):
                raise SpaceError(f"ResizeObservation needs pictures of bytes from 0 to 255, got {space}")
            result = (height, width, *box.shape[2:])

            def resized(obs: np.ndarray) -> np.ndarray:
                pictures = np.empty((len(obs), *result), np.uint8)
                for picture, target in zip(np.ascontiguousarray(obs), pictures, strict=True):
                    target[:] = resize(picture, (width, height)).reshape(result)
                return pictures

            return spaces.Box(0, 255, result, np.uint8), resized

        super().__init__(env, ObservationFunction("ResizeObservation", change))
        self.shape = shape


def _turned(box: Any) -> spaces.Box:
    return spaces.Box(box.low.transpose(2, 0, 1), box.high.transpose(2, 0, 1), dtype=box.dtype)


def _turned_batch(chosen: bool, leaf: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(leaf.transpose(0, 3, 1, 2)) if chosen else leaf


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and int(size) > 0


def _as_space(tree: Any) -> Space[Any]:
    """The space that a tree of spaces is."""
    if isinstance(tree, dict):
        return spaces.Dict({key: _as_space(child) for key, child in tree.items()})
    if isinstance(tree, tuple):
        return spaces.Tuple([_as_space(child) for child in tree])
    return tree
