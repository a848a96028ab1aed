"""A vector env that RLlib sees as one env."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vecenv._batch.layout import map_tree
from vecenv._util.episodes import EpisodeLog


class PackedVectorEnv(VectorEnv):
    """N envs as a vector env of one, whose observation contains the results of all N.

    An observation is a dict: "obs" (batched as the envs batch it), "reward", "terminated" and "truncated" of the step
    that led to it. They are separate, so that a filter of observations does not change the others. The packed env is
    never done: the envs' episodes end at different times.

    Args:
        envs: vector env in next-step mode.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, envs: VectorEnv) -> None:
        self.envs = envs
        self.num_envs = 1
        count = envs.num_envs
        self.episodes = EpisodeLog(count)
        flags = spaces.MultiBinary(count)
        self.single_observation_space = spaces.Dict(
            {
                "obs": envs.observation_space,
                "reward": spaces.Box(-np.inf, np.inf, (count,), np.float32),
                "terminated": flags,
                "truncated": flags,
            }
        )
        self.single_action_space = envs.action_space
        self.observation_space = batch_space(self.single_observation_space, 1)
        self.action_space = batch_space(self.single_action_space, 1)
        self._done = np.zeros(count, bool)
        self._reward, self._never = np.zeros(1), np.zeros(1, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all envs."""
        if isinstance(seed, (list, tuple)):
            seed = seed[0]
        obs, _ = self.envs.reset(seed=seed, options=options)
        self.episodes.begin()
        self._done[:] = False
        none = np.zeros(len(self._done), np.int8)
        return self._packed(obs, none, none, none), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs. The packed env's own reward is always zero: the envs' rewards are in the observation."""
        obs, reward, terminated, truncated, _ = self.envs.step(map_tree(lambda leaf: leaf[0], actions))
        done = terminated | truncated
        self.episodes.add(reward, done, ~self._done)
        self._done = done
        return self._packed(obs, reward, terminated, truncated), self._reward, self._never, self._never, {}

    def _packed(self, obs: Any, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        return {
            "obs": map_tree(lambda leaf: leaf[None], obs),
            "reward": reward[None].astype(np.float32),
            "terminated": terminated[None].astype(np.int8),
            "truncated": truncated[None].astype(np.int8),
        }

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.envs.close()
