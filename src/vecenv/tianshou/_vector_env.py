"""A vector env of vecenv as Tianshou's `BaseVectorEnv`."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from vecenv._front.faces import check_mode
from vecenv._front.infos import infos_to_list
from vecenv._front.step import Step
from vecenv._util.extras import load_client
from vecenv.errors import ConfigError, UnsupportedError

BaseVectorEnv: Any = load_client("tianshou.env", "tianshou", "2.").BaseVectorEnv


class VectorEnv(BaseVectorEnv):
    """Envs for Tianshou's collectors, equal to its `DummyVectorEnv` with the same seeds.

    Args:
        envs: of `vecenv.make` or a wrapper around it, with autoreset="disabled": the collectors reset envs themselves.
        wait_num: how many envs a step waits for; default: the envs' `batch_size`. With fewer than there are envs, this
            is an async env for `AsyncCollector`, which acts on the envs that are ready first.

    Raises:
        ConfigError: the envs have another autoreset mode.
    """

    def __init__(self, envs: Any, wait_num: int | None = None) -> None:
        check_mode(envs, AutoresetMode.DISABLED, "Tianshou")
        space = envs.single_observation_space
        if isinstance(space, gymnasium.spaces.Tuple):
            raise UnsupportedError(
                "Tianshou supports no Tuple observations; make arrays or a Dict of them by a wrapper"
            )
        self.envs, self.env_num = envs, envs.num_envs
        self.wait_num = envs.batch_size if wait_num is None else wait_num
        if not 1 <= self.wait_num <= self.env_num:
            raise ConfigError(f"wait_num must be in 1 ... {self.env_num}, got {self.wait_num}")
        self.is_async = self.wait_num != self.env_num
        self.timeout = None
        self._action_spaces = [copy.deepcopy(envs.single_action_space) for _ in range(self.env_num)]
        self._early: list[Step] = []
        """Steps that were received while a reset was waited for, of one env each."""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.envs.closed

    @property
    def waiting_id(self) -> list[int]:
        """Envs that were stepped and whose results were not returned."""
        return [*self.envs.unwrapped.engine.pending().tolist(), *(int(step.env_ids[0]) for step in self._early)]

    @property
    def ready_id(self) -> list[int]:
        """All other envs."""
        return np.setdiff1d(np.arange(self.env_num), self.waiting_id).tolist()

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        """An attribute of these envs; Tianshou asks for spaces in this way."""
        own = {
            "action_space": self._action_spaces,
            "observation_space": [self.envs.single_observation_space] * self.env_num,
            "spec": [self.envs.spec] * self.env_num,
            "metadata": [self.envs.metadata] * self.env_num,
        }
        values = own.get(key) or self.envs.get_attr(key)
        return [values[row] for row in self._wrap_id(id)]

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:
        """Set an attribute of these envs."""
        values = [value] * self.env_num if id is None else list(self.envs.get_attr(key))
        for row in self._wrap_id(id):
            values[row] = value
        self.envs.set_attr(key, values)

    def seed(self, seed: int | list[int] | None = None) -> list[list[int | None]]:
        """Reset all envs with `seed, seed + 1, ...` or with those of a list, and seed their action spaces."""
        seeds = [seed + row for row in range(self.env_num)] if isinstance(seed, int) else seed or [None] * self.env_num
        for space, number in zip(self._action_spaces, seeds, strict=True):
            space.seed(number)
        self.envs.reset(seed=seeds)
        return [[number] for number in seeds]

    def reset(self, env_id: Any = None, *, seed: int | None = None, options: Any = None) -> tuple[Any, np.ndarray]:
        """Begin new episodes of these envs. As in Tianshou, all of them get the same seed; see `seed`."""
        rows = np.asarray(self._wrap_id(env_id))
        self._assert_id(rows)
        if not self.waiting_id:
            mask = np.zeros(self.env_num, np.bool_)
            mask[rows] = True
            seeds = None if seed is None else [seed if chosen else None for chosen in mask]
            obs, infos = self.envs.reset(seed=seeds, options={**(options or {}), "reset_mask": mask})
            return self._observations(obs)[rows], np.array(infos_to_list(infos, self.env_num))[rows]
        self.envs.send_reset(rows, seed=None if seed is None else [seed] * self.env_num, options=options)
        received: dict[int, Step] = {}
        while len(received) < len(rows):
            step = self.envs.recv(min_envs=1)
            if step.valid[0]:
                self._early.append(step)
            else:
                received[int(step.env_ids[0])] = step
        steps = [received[row] for row in rows.tolist()]
        return _joined([self._observations(step.obs) for step in steps]), _joined([_infos(step) for step in steps])

    def step(self, action: Any, id: Any = None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Step these envs; of an async env, return those that are ready first. None as action waits for all."""
        rows = np.asarray(self._wrap_id(id))
        if not self.is_async:
            obs, reward, terminated, truncated, infos = self.envs.step(np.asarray(action), env_ids=rows)
            dicts = infos_to_list(infos, len(rows))
            for row, info in zip(rows.tolist(), dicts, strict=True):
                info["env_id"] = row
            return self._observations(obs, len(rows)), reward, terminated, truncated, np.array(dicts)
        if action is not None:
            self._assert_id(rows)
            self.envs.send(np.asarray(action), rows)
        steps, self._early = self._early, []
        running = len(self.envs.unwrapped.engine.pending())
        missing = running if action is None else min(running, self.wait_num - len(steps))
        if missing > 0:
            steps.append(self.envs.recv(min_envs=missing))
        columns = [(self._observations(s.obs, len(s.env_ids)), s.reward, s.terminated, s.truncated) for s in steps]
        return *map(_joined, zip(*columns, strict=True)), _joined([_infos(step) for step in steps])

    def render(self, **kwargs: Any) -> list[Any]:
        """One frame per env."""
        return list(self.envs.render() or ())

    def close(self) -> None:
        """Close the envs."""
        self.envs.close()

    def _observations(self, obs: Any, count: int | None = None) -> np.ndarray:
        """Arrays as they are; of a Dict space one dict per env, as Tianshou has it."""
        if isinstance(obs, np.ndarray):
            return obs
        space = gymnasium.vector.utils.batch_space(self.envs.single_observation_space, count or self.env_num)
        return np.array(list(iterate(space, obs)), dtype=object)


def _infos(step: Step) -> np.ndarray:
    dicts = infos_to_list(step.infos, len(step.env_ids))
    for row, info in zip(step.env_ids.tolist(), dicts, strict=True):
        info["env_id"] = row
    return np.array(dicts)


def _joined(parts: Any) -> Any:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
