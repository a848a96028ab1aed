"""How observations of vector envs are laid out, in Stable-Baselines3's terms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv.errors import SpaceError
from vecenv.sb3.base_vec_env import VecEnvObs


def check_for_nested_spaces(space: Space[Any]) -> None:
    """Raise NotImplementedError if a Dict or Tuple space has Dict or Tuple spaces in it."""
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return
    subspaces = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    if any(isinstance(subspace, (spaces.Dict, spaces.Tuple)) for subspace in subspaces):
        raise NotImplementedError(
            "Nested observation spaces are not supported (Tuple/Dict space inside Tuple/Dict space); "
            "flatten them, e.g. with gymnasium.wrappers.FlattenObservation"
        )


def dict_to_obs(obs_space: Space[Any], obs_dict: dict[Any, np.ndarray]) -> VecEnvObs:
    """Arrays by key as an observation: the dict itself for Dict, a tuple for Tuple, else the array of key None."""
    if isinstance(obs_space, spaces.Dict):
        return obs_dict
    if isinstance(obs_space, spaces.Tuple):
        assert len(obs_dict) == len(obs_space.spaces), "size of observation does not match size of observation space"
        return tuple(obs_dict[index] for index in range(len(obs_space.spaces)))
    assert set(obs_dict) == {None}, "multiple observation keys for unstructured observation space"
    return obs_dict[None]


def obs_space_info(obs_space: Space[Any]) -> tuple[list[Any], dict[Any, tuple[int, ...]], dict[Any, np.dtype]]:
    """The keys of a space's parts (a Tuple's are numbers; None if it has no parts), their shapes and dtypes by key."""
    check_for_nested_spaces(obs_space)
    parts: dict[Any, Any] = {None: obs_space}
    if isinstance(obs_space, spaces.Dict):
        parts = dict(obs_space.spaces)
    elif isinstance(obs_space, spaces.Tuple):
        parts = dict(enumerate(obs_space.spaces))
    elif hasattr(obs_space, "spaces"):
        raise SpaceError(f"{type(obs_space).__name__} spaces have no place in a batch of arrays; use Dict or Tuple")
    shapes = {key: part.shape for key, part in parts.items()}
    return list(parts), shapes, {key: part.dtype for key, part in parts.items()}


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
