"""What wrappers of observations have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import Layout, map_tree
from vecenv._front.exchange import Exchange
from vecenv.errors import SpaceError
from vecenv.wrappers._transform import Transform

Changed = tuple[Space[Any], Callable[[Any], Any]]
"""A space, and a function that changes batches to those of this space."""


class ObservationFunction(Transform):
    """A function of batches, applied to `obs` and, where episodes ended, to `final_obs`.

    Args:
        who: the wrapper, for error messages.
        change: given the space of observations, returns that of changed ones, and a function that changes a batch of
            any number of them and does not write to it. Raises SpaceError if it cannot.
    """

    def __init__(self, who: str, change: Callable[[Space[Any]], Changed]) -> None:
        self._who, self._change = who, change

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        check_arrays(observation, self._who)
        space, self._function = self._change(observation)
        return space, action

    def exchange(self, exchange: Exchange) -> None:
        exchange.obs = self._function(exchange.obs)
        if exchange.final_obs is not None:
            ended = np.flatnonzero(exchange.rolled)
            exchange.final_obs = spread(self._function(take(exchange.final_obs, ended)), ended, len(exchange))


def take(obs: Any, positions: np.ndarray) -> Any:
    """Some observations of a batch, copies."""
    return map_tree(lambda leaf: leaf[positions], obs)


def spread(obs: Any, positions: np.ndarray, count: int) -> Any:
    """A batch of `count` observations that has those of `obs` at `positions`; the others are undefined."""

    def spread_leaf(leaf: np.ndarray) -> np.ndarray:
        spread = np.empty((count, *leaf.shape[1:]), leaf.dtype)
        spread[positions] = leaf
        return spread

    return map_tree(spread_leaf, obs)


def map_space(function: Callable[[Space[Any]], Any], space: Space[Any]) -> Any:
    """Apply a function to the leaves of a space: dicts and tuples of its results, nested like observations are."""
    if isinstance(space, spaces.Dict):
        return {key: map_space(function, child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map_space(function, child) for child in space.spaces)
    return function(space)


def check_arrays(space: Space[Any], who: str) -> None:
    """Raise SpaceError unless all leaves of a space are arrays of numbers."""
    layout = Layout(space)
    if layout.by_value:
        leaf = layout.leaves[layout.by_value[0]]
        raise SpaceError(f"{who} needs observations that are arrays, got {leaf.space}")


def check_box(space: Space[Any], who: str, what: str = "observations") -> spaces.Box:
    """The space, if it is a Box."""
    if not isinstance(space, spaces.Box):
        raise SpaceError(f"{who} needs a Box of {what}, got {space}")
    return space


def has_bytes(box: spaces.Box) -> bool:
    """Whether these are arrays of bytes from 0 to 255."""
    return box.dtype == np.uint8 and bool(np.all(box.low == 0) and np.all(box.high == 255))


def is_image(space: Space[Any]) -> bool:
    """Whether these are pictures: three axes, bytes from 0 to 255."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and has_bytes(space)


def flatten_function(space: Space[Any]) -> Callable[[Any], np.ndarray]:
    """A function that flattens batches as `gymnasium.spaces.flatten` flattens single observations.

    Args:
        space: of a single observation; its leaves are arrays of numbers.
    """
    layout, dtype = Layout(space), spaces.flatten_space(space).dtype
    parts: list[tuple[int, int, np.ndarray | None]] = []
    size = 0
    for leaf in layout.leaves:
        sizes, offsets = np.array([math.prod(leaf.shape)]), None
        if isinstance(leaf.space, (spaces.Discrete, spaces.MultiDiscrete)):
            sizes = np.reshape(leaf.space.n if isinstance(leaf.space, spaces.Discrete) else leaf.space.nvec, -1)
            offsets = size + np.cumsum(sizes) - sizes - np.reshape(leaf.space.start, -1)
        begin, size = size, size + int(sizes.sum())
        parts.append((begin, size, offsets))

    def flatten(obs: Any) -> np.ndarray:
        leaves = layout.flat(obs)
        flat = np.zeros((len(leaves[0]), size), dtype)
        for leaf, (begin, end, offsets) in zip(leaves, parts, strict=True):
            values = leaf.reshape(len(flat), -1)
            if offsets is None:
                flat[:, begin:end] = values
            else:  # one-hot: each number sets the entry at its offset plus the number
                flat[np.arange(len(flat))[:, None], values + offsets] = 1
        return flat

    return flatten
