"""What wrappers of observations have in common."""

from __future__ import annotations

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


def count_of(obs: Any) -> int:
    """How many observations a batch has."""
    while isinstance(obs, (dict, tuple)):
        obs = next(iter(obs.values() if isinstance(obs, dict) else obs))
    return len(obs)


def map_space(function: Callable[[Space[Any]], Any], space: Space[Any]) -> Any:
    """Apply a function to the leaves of a space: dicts and tuples of its results, nested like observations are."""
    if isinstance(space, spaces.Dict):
        return {key: map_space(function, child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map_space(function, child) for child in space.spaces)
    return function(space)


def as_space(tree: Any) -> Space[Any]:
    """The space that a tree of spaces is."""
    if isinstance(tree, dict):
        return spaces.Dict({key: as_space(child) for key, child in tree.items()})
    if isinstance(tree, tuple):
        return spaces.Tuple([as_space(child) for child in tree])
    return tree


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
