"""One part of Dict observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv.sb3.base_vec_env import ObservationWrapper, VecEnv, VecEnvStepReturn, registered


@registered
class VecExtractDictObs(ObservationWrapper):
    """Observations that are one part of the inner env's.

    Args:
        venv: to be wrapped; its observation space is a Dict.
        key: of the part.
    """

    def __init__(self, venv: VecEnv, key: str) -> None:
        space = venv.observation_space
        assert isinstance(space, spaces.Dict), f"VecExtractDictObs can only be used with Dict obs space, not {space}"
        self.key = key
        super().__init__(venv, observation_space=space.spaces[key])

    def transformed(self, obs: dict[str, np.ndarray]) -> np.ndarray:
        return obs[self.key]

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step; "terminal_observation" is the same part, also where no episode ended."""
        obs: Any
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = info["terminal_observation"][self.key]
        return self.transformed(obs), rewards, dones, infos
