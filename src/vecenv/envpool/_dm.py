"""EnvPool's dm_env interface: batches as TimeSteps."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from vecenv._util.extras import load_extra
from vecenv.envpool._pool import EnvPool

State = namedtuple("State", ("obs", "env_id", "players", "elapsed_step"))
"""Observations of a TimeStep: what the envs show, and which envs these are."""


class DmEnvPool:
    """Envs as EnvPool's dm_env interface has them: `reset`, `step` and `recv` return a `dm_env.TimeStep` of arrays.

    `step_type` is FIRST (0) where an episode began, LAST (2) where one ended, else MID (1). `discount` is 0 where an
    episode ended, by truncation too, as in EnvPool.

    Args:
        pool: the same envs with Gymnasium's results.
    """

    def __init__(self, pool: EnvPool) -> None:
        missing = "make_dm needs dm-env: pip install dm-env"
        self._dm_env, self._specs = load_extra("dm_env", missing), load_extra("dm_env.specs", missing)
        self.pool, self.config, self.spec = pool, pool.config, pool.spec
        self.num_envs, self.all_env_ids = pool.num_envs, pool.all_env_ids

    def __len__(self) -> int:
        return self.num_envs

    def async_reset(self) -> None:
        """Start a reset of all envs; `recv` returns those that are ready first."""
        self.pool.async_reset()

    def send(self, action: Any, env_id: Any = None) -> None:
        """Start a step of all envs, or of those of `env_id`."""
        self.pool.send(action, env_id)

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Wait for `batch_size` envs."""
        return self._time_step(*self.pool.recv())

    def reset(self, env_id: Any = None) -> Any:
        """Begin new episodes in all envs, or in those of `env_id`."""
        obs, info = self.pool.reset(env_id)
        zeros = np.zeros(len(info["env_id"]), np.float32)
        return self._time_step(obs, zeros, zeros > 0, zeros > 0, info)

    def step(self, action: Any, env_id: Any = None) -> Any:
        """Step all envs, or those of `env_id`."""
        return self._time_step(*self.pool.step(action, env_id))

    def action_spec(self) -> Any:
        """The action of a single env."""
        return self._spec(self.pool.single_action_space, "action")

    def observation_spec(self) -> Any:
        """The observation of a single env."""
        return self._spec(self.pool.single_observation_space, "obs")

    def xla(self) -> tuple[Any, Any, Any, Any]:
        """`handle, recv, send, step`, see `vecenv.VectorEnv.xla`."""
        return self.pool.xla()

    def close(self) -> None:
        """Close the envs."""
        self.pool.close()

    def _time_step(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        done, elapsed = terminated | truncated, info["elapsed_step"]
        kinds = np.where(done, 2, np.where(elapsed == 0, 0, 1)).astype(np.int32)
        discount = (~done).astype(np.float32)
        return self._dm_env.TimeStep(kinds, reward, discount, State(obs, info["env_id"], info["players"], elapsed))

    def _spec(self, space: Any, name: str) -> Any:
        if hasattr(space, "n"):
            return self._specs.DiscreteArray(int(space.n), name=name)
        return self._specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name=name)
