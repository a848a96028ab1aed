"""Batches of observations as batches of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv.wrappers._observations import count_of


def flatten_function(space: Space[Any]) -> Callable[[Any], np.ndarray]:
    """A function that flattens batches as `gymnasium.spaces.flatten` flattens single observations.

    Args:
        space: of a single observation; its leaves are arrays of numbers.
    """
    parts: list[Callable[[Any, np.ndarray], None]] = []
    size = _add_parts(space, lambda obs: obs, 0, parts)
    dtype = spaces.flatten_space(space).dtype

    def flatten(obs: Any) -> np.ndarray:
        flat = np.zeros((count_of(obs), size), dtype)
        for write in parts:
            write(obs, flat)
        return flat

    return flatten


def _add_parts(space: Space[Any], find: Callable[[Any], Any], begin: int, parts: list[Any]) -> int:
    """Add the writers of a space whose vector begins at `begin`; return where it ends."""
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            begin = _add_parts(child, lambda obs, key=key: find(obs)[key], begin, parts)
        return begin
    if isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            begin = _add_parts(child, lambda obs, index=index: find(obs)[index], begin, parts)
        return begin
    if isinstance(space, spaces.Discrete):
        hot = _one_hot(np.array([begin - int(space.start)]))
        end = begin + int(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.reshape(-1)
        hot = _one_hot(begin + np.cumsum(sizes) - sizes - space.start.reshape(-1))
        end = begin + int(sizes.sum())
    else:
        end = begin + int(np.prod(space.shape or ()))
        parts.append(lambda obs, flat: flat.__setitem__(np.s_[:, begin:end], find(obs).reshape(len(flat), -1)))
        return end
    parts.append(lambda obs, flat: hot(find(obs), flat))
    return end


def _one_hot(offsets: np.ndarray) -> Callable[[np.ndarray, np.ndarray], None]:
    """A writer that sets one entry per number: that at the number's offset plus the number."""

    def write(values: np.ndarray, flat: np.ndarray) -> None:
        flat[np.arange(len(flat))[:, None], values.reshape(len(flat), -1) + offsets] = 1

    return write
