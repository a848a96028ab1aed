"""Observations in the form that RLlib's default networks take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from ray.rllib.models.utils import get_filter_config

from vecenv._batch.layout import map_tree
from vecenv._batch.slots import Slots
from vecenv._front.vector_env import VectorEnv as Ours
from vecenv.errors import ConfigError
from vecenv.wrappers._observations import check_arrays, flatten_function, has_bytes

_LARGEST = 4096
"""Numbers of an observation of several axes that a network without convolutions gets."""


def needs_floats(space: Space[Any], filters: bool) -> bool:
    """Whether RLlib's default networks do not support these observations, or would take wrong axes of them.

    Args:
        space: of one observation.
        filters: whether the config has `conv_filters`, with which pictures may have any size.
    """
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return True
    return len(space.shape) != 1 and _shape(space, filters) != space.shape


def as_floats(space: Space[Any], filters: bool) -> spaces.Box:
    """The space of such observations as floats.

    Raises:
        ConfigError: a picture that RLlib has no filters for is too large for a network without convolutions.
    """
    return spaces.Box(-np.inf, np.inf, _shape(space, filters), np.float32)


def with_floats(envs: VectorEnv, filters: bool) -> VectorEnv:
    """The same envs with one float32 array per observation.

    Bytes from 0 to 255 become floats from 0 to 1. Pictures have their channels, or stacked frames, on the last axis;
    those that RLlib has no filters for are flattened, like anything that is not one Box. A Discrete becomes one-hot.
    """
    if isinstance(envs, Ours):
        from vecenv.wrappers import TransformObservation
    else:
        from gymnasium.wrappers.vector import TransformObservation
    space = envs.single_observation_space
    changed = as_floats(space, filters)
    return TransformObservation(envs, _function(space, changed.shape), single_observation_space=changed)


def floats_of_slots(slots: Slots, filters: bool) -> tuple[Slots, list[Callable[[Any], Any]]]:
    """The same agents with observations as `with_floats` has them, and a function for the observations of each group.

    Groups whose observations RLlib's default networks take are not changed.
    """
    groups, functions = [], []
    for group in slots.groups:
        space = group.observation_space
        if needs_floats(space, filters):
            changed = as_floats(space, filters)
            groups.append(replace(group, observation_space=changed))
            functions.append(_for_agents(_function(space, changed.shape)))
        else:
            groups.append(group)
            functions.append(_unchanged)
    return replace(slots, groups=tuple(groups)), functions


def _for_agents(change: Callable[[Any], np.ndarray]) -> Callable[[Any], np.ndarray]:
    """A function of batches as one of arrays with the axes [envs, agents]."""

    def change_all(obs: Any) -> np.ndarray:
        shapes: list[tuple[int, ...]] = []

        def joined(leaf: np.ndarray) -> np.ndarray:
            shapes.append(leaf.shape[:2])
            return leaf.reshape(-1, *leaf.shape[2:])

        changed = change(map_tree(joined, obs))
        return changed.reshape(*shapes[0], *changed.shape[1:])

    return change_all


def _unchanged(obs: Any) -> Any:
    return obs


def _function(space: Space[Any], shape: tuple[int, ...]) -> Callable[[Any], np.ndarray]:
    """A function that changes batches to floats of this shape."""
    check_arrays(space, "RLlib's default network")
    flatten = None if isinstance(space, spaces.Box) else flatten_function(space)
    moves = len(shape) == len(space.shape or ()) == 3 and shape != space.shape
    scale = 255 if isinstance(space, spaces.Box) and has_bytes(space) else 1

    def change(obs: Any) -> np.ndarray:
        floats = np.array(obs if flatten is None else flatten(obs), np.float32)
        if scale != 1:
            floats /= scale
        if moves:
            floats = np.ascontiguousarray(np.moveaxis(floats, 1, -1))
        return floats.reshape(len(floats), *shape)

    return change


def _shape(space: Space[Any], filters: bool) -> tuple[int, ...]:
    if not isinstance(space, spaces.Box):
        return spaces.flatten_space(space).shape  # type: ignore[return-value]
    if len(space.shape) == 1:
        return space.shape
    picture = _channels_last(space.shape)
    if len(picture) == 3 and (filters or _has_filters(picture)):
        return picture
    if math.prod(space.shape) > _LARGEST:
        raise ConfigError(
            f"RLlib's default networks have no filters for observations of shape {space.shape}, which are too large "
            "for a network without: pass preprocessing=True for Atari games, or set conv_filters in "
            "config.rl_module(model_config=...), or an rl_module_spec"
        )
    return (math.prod(space.shape),)


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a picture as RLlib's networks take it: height, width, channels. One of two axes has one channel."""
    if len(shape) == 2:
        return (*shape, 1)
    return (*shape[1:], shape[0]) if len(shape) == 3 and shape[0] < min(shape[1:]) else shape


def _has_filters(picture: tuple[int, ...]) -> bool:
    try:
        get_filter_config(
            (*picture[:2], 0)
        )  # 0: RLlib also accepts a size on the last two axes, which it then mixes up
    except ValueError:
        return False
    return True
