"""Observations that are the last few of the inner env's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv.sb3.base_vec_env import VecEnv, VecEnvStepReturn, VecEnvWrapper, registered
from vecenv.sb3.stacked_observations import StackedObservations


@registered
class VecFrameStack(VecEnvWrapper):
    """Joins the last `n_stack` observations of every env; see `StackedObservations`.

    Images with channels last are handed out as a view of an array with channels first: `VecTransposeImage` copies
    nothing.

    Args:
        venv: to be wrapped; its observations are a Box, or a Dict of Boxes.
        n_stack: how many observations.
        channels_order: "first", "last", or None to detect it; or one of these per key of a Dict.
    """

    def __init__(
        self, venv: VecEnv, n_stack: int, channels_order: str | Mapping[str, str | None] | None = None
    ) -> None:
        space = venv.observation_space
        assert isinstance(space, (spaces.Box, spaces.Dict)), (
            "VecFrameStack only works with gym.spaces.Box and gym.spaces.Dict observation spaces"
        )
        self.stacked_obs = StackedObservations(venv.num_envs, n_stack, space, channels_order)
        super().__init__(venv, observation_space=self.stacked_obs.stacked_observation_space)

    def reset(self) -> np.ndarray | dict[str, np.ndarray]:
        return self.stacked_obs.reset(self.venv.reset())

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step; "terminal_observation" is a stack as well."""
        observations, rewards, dones, infos = self.venv.step_wait()
        stacked: Any
        stacked, infos = self.stacked_obs.update(observations, dones, infos)
        return stacked, rewards, dones, infos
