"""A vector env with the methods of EnvPool's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from vecenv._front.step import Step
from vecenv.errors import UnsupportedError


class EnvPool(gymnasium.vector.VectorEnv):
    """Envs as EnvPool's Gymnasium interface has them.

    A step that ends an episode returns its last observation, and the next step of that env begins the next episode.
    Rewards are float32. `info` has "env_id", "elapsed_step" and "players" for each env in the results, and the env's
    own infos. `observation_space` and `action_space` are those of a single env, as EnvPool's are.

    Args:
        envs: of `vecenv.make` with autoreset="next-step", or a wrapper around it.
        seed: of the first reset.
        config: what was given to `make`.
    """

    def __init__(self, envs: Any, seed: Any, config: dict[str, Any]) -> None:
        self.envs, self.config = envs, config
        self.num_envs, self.spec, self.metadata = envs.num_envs, envs.spec, envs.metadata
        self.render_mode = envs.render_mode
        self.observation_space = self.single_observation_space = envs.single_observation_space
        self.action_space = self.single_action_space = envs.single_action_space
        self._seed = seed

    @property
    def all_env_ids(self) -> np.ndarray:
        """Ids of all envs."""
        return np.arange(self.num_envs, dtype=np.int32)

    @property
    def is_async(self) -> bool:
        """Whether `recv` returns fewer envs than there are."""
        return self.envs.batch_size < self.num_envs

    def __len__(self) -> int:
        return self.num_envs

    def async_reset(self) -> None:
        """Start a reset of all envs; `recv` returns those that are ready first."""
        self.envs.send_reset(seed=self._next_seed())

    def send(self, action: Any, env_id: Any = None) -> None:
        """Start a step of all envs, or of those of `env_id`."""
        self.envs.send(np.asarray(action), env_id)

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Wait for `batch_size` envs: five values, or (obs, info) if `reset`."""
        return self._results(self.envs.recv(), reset)

    def reset(self, env_id: Any = None, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in all envs, or in those of `env_id`, and wait for them."""
        if self.is_async:
            raise UnsupportedError("reset() waits for all envs, and recv() for batch_size of them; use async_reset()")
        mask = None if options is None else options.get("reset_mask")
        env_id = env_id if mask is None else np.flatnonzero(mask)
        self.envs.send_reset(env_id, seed=self._next_seed() if seed is None else seed)
        return self._results(self.envs.recv(self.num_envs if env_id is None else len(env_id)), True)

    def step(  # type: ignore[override]  # EnvPool's names
        self, action: Any, env_id: Any = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs, or those of `env_id`, and wait for these; if `batch_size` is smaller, for that many envs."""
        if self.is_async:
            self.send(action, env_id)
            return self.recv()
        env_ids = self.all_env_ids if env_id is None else np.asarray(env_id)
        results = self.envs.step(np.asarray(action), env_id)
        return self._five(results, env_ids, self.envs.episode_length[env_ids])

    def xla(self) -> tuple[Any, Any, Any, Any]:
        """`handle, recv, send, step`, see `vecenv.VectorEnv.xla`."""
        return self.envs.xla()

    def render(self) -> Any:
        """One frame per env."""
        return self.envs.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.envs.close()

    def __del__(self) -> None:
        """Nothing: Gymnasium would close the envs, which close themselves, also while Python ends."""

    def _next_seed(self) -> Any:
        seed, self._seed = self._seed, None
        return seed

    def _results(self, step: Step, reset: bool) -> Any:
        five = self._five(tuple(step), step.env_ids, step.episode_length)
        return (five[0], five[4]) if reset else five

    def _five(
        self, results: tuple[Any, ...], env_ids: Any, elapsed: Any
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward, terminated, truncated, infos = results
        ids = env_ids.astype(np.int32)
        own = {key: values for key, values in infos.items() if not key.startswith("_")}
        info = {**own, "env_id": ids, "players": {"env_id": ids}, "elapsed_step": elapsed.astype(np.int32)}
        return obs, reward.astype(np.float32), terminated, truncated, info
