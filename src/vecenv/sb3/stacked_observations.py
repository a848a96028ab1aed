"""The last few observations of every env, joined."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv._util.checks import positive_int
from vecenv.sb3.util import is_channels_first
from vecenv.wrappers._observations import is_image
from vecenv.wrappers._stacking import Stacker


class StackedObservations:
    """Keeps the last `n_stack` observations of every env and concatenates them, the newest last.

    Before an episode's first observation there are zeros. Every stack that is handed out is a new array.

    Args:
        num_envs: how many.
        n_stack: how many observations.
        observation_space: of a single env: a Box, or a Dict of Boxes.
        channels_order: "first" joins on the first axis, "last" on the last one, None on that of the channels if it is
            an image, else on the last one. Of a Dict: one for all parts, or one per key.

    Attributes:
        stacked_observation_space: of the stacks.
        sub_stacked_observations: the parts of a Dict.

    Raises:
        TypeError: the space is of another kind, or the order does not fit it.
    """

    def __init__(
        self,
        num_envs: int,
        n_stack: int,
        observation_space: spaces.Box | spaces.Dict,
        channels_order: str | Mapping[str, str | None] | None = None,
    ) -> None:
        self.n_stack = positive_int("n_stack", n_stack)
        self.observation_space = observation_space
        self.sub_stacked_observations: dict[str, StackedObservations] = {}
        self.stacked_observation_space: spaces.Box | spaces.Dict
        self._everyone = np.arange(num_envs)
        if isinstance(observation_space, spaces.Dict):
            self._stack_parts(num_envs, observation_space, channels_order)
        elif isinstance(observation_space, spaces.Box):
            if isinstance(channels_order, Mapping):
                raise TypeError("When the observation space is Box, channels_order can't be a dict.")
            self._stack_box(num_envs, observation_space, channels_order)
        else:
            raise TypeError(
                "StackedObservations only supports Box and Dict as observation spaces. "
                f"{observation_space} was provided."
            )

    def _stack_parts(self, num_envs: int, space: spaces.Dict, order: Any) -> None:
        orders = order if isinstance(order, Mapping) else dict.fromkeys(space.spaces, order)
        for key, part in space.spaces.items():
            self.sub_stacked_observations[key] = StackedObservations(num_envs, self.n_stack, part, orders[key])  # type: ignore[arg-type]  # checked there
        self.stacked_observation_space = spaces.Dict(
            {key: part.stacked_observation_space for key, part in self.sub_stacked_observations.items()}
        )

    def _stack_box(self, num_envs: int, space: spaces.Box, order: str | None) -> None:
        self.channels_first, self.stack_dimension, self.stacked_shape, self.repeat_axis = self.compute_stacking(
            self.n_stack, space, order
        )
        low, high = (np.repeat(bound, self.n_stack, axis=self.repeat_axis) for bound in (space.low, space.high))
        self.stacked_observation_space = spaces.Box(low, high, dtype=space.dtype)  # type: ignore[arg-type]  # a Box's
        self._stacker = Stacker(num_envs, self.n_stack, space.shape, space.dtype, self.repeat_axis)

    @staticmethod
    def compute_stacking(
        n_stack: int, observation_space: spaces.Box, channels_order: str | None = None
    ) -> tuple[bool, int, tuple[int, ...], int]:
        """How observations of a space are joined.

        Returns:
            Whether on the first axis; the axis in a batch, 1 or -1; the shape of a stack; the axis in it, 0 or -1.
        """
        assert channels_order in (None, "last", "first"), "`channels_order` must be one of following: 'last', 'first'"
        if channels_order is None:
            channels_first = is_image(observation_space) and is_channels_first(observation_space)
        else:
            channels_first = channels_order == "first"
        repeat_axis = 0 if channels_first else -1
        shape = list(observation_space.shape)
        shape[repeat_axis] *= n_stack
        return channels_first, 1 if channels_first else -1, tuple(shape), repeat_axis

    @property
    def stacked_obs(self) -> np.ndarray:
        """The stacks of all envs, a copy; of a Box."""
        return self._stacker.current(self._everyone)

    def reset(self, observation: Any) -> Any:
        """Start all stacks with these observations, one per env; return the stacks."""
        if isinstance(observation, dict):
            return {key: self.sub_stacked_observations[key].reset(part) for key, part in observation.items()}
        return self._stacker.push(self._everyone, observation, np.ones(len(self._everyone), np.bool_))

    def update(
        self, observations: Any, dones: np.ndarray, infos: list[dict[str, Any]]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Add observations, one per env. Where `dones`, they are the first of an episode.

        There, "terminal_observation" of the info becomes the stack that ended the episode; a warning if it is missing.

        Returns:
            The stacks, and `infos`, in which only that was changed.
        """
        ended = np.flatnonzero(dones)
        known = [row for row in ended.tolist() if "terminal_observation" in infos[row]]
        if len(known) < len(ended):
            warnings.warn("VecFrameStack wrapping a VecEnv without terminal_observation info", stacklevel=2)
        for row in known:
            infos[row]["terminal_observation"] = self._final(row, infos[row]["terminal_observation"])
        return self._push(observations, np.asarray(dones, np.bool_)), infos

    def _final(self, row: int, observation: Any) -> Any:
        if isinstance(observation, dict):
            return {key: self.sub_stacked_observations[key]._final(row, part) for key, part in observation.items()}
        return self._stacker.final(np.array([row]), np.asarray(observation)[None])[0]

    def _push(self, observations: Any, began: np.ndarray) -> Any:
        if isinstance(observations, dict):
            return {key: self.sub_stacked_observations[key]._push(part, began) for key, part in observations.items()}
        return self._stacker.push(self._everyone, observations, began)


StackedDictObservations = StackedObservations
"""The name that Stable-Baselines3 has for one of a Dict."""
