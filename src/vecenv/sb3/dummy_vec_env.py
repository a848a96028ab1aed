"""All envs in this process."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from vecenv._layout import Layout
from vecenv.errors import ConfigError
from vecenv.sb3 import _served
from vecenv.sb3.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn
from vecenv.sb3.patch_gym import _patch_env
from vecenv.sb3.util import dict_to_obs, obs_space_info

_ATOMS = frozenset({bool, int, float, str, bytes, type(None), np.bool_, np.float32, np.float64, np.int32, np.int64})
"""Types of values that nobody can change."""
_EVERYONE = slice(None)


class DummyVecEnv(VecEnv):
    """Envs stepped one after the other. Nothing is checked: what NumPy can store is stored.

    Args:
        env_fns: functions that create the environments.

    Attributes:
        envs: the environments.
        actions: of the step that is running or was the last.

    Raises:
        ValueError: two functions returned the same env.
    """

    actions: Any

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        self.envs = [_patch_env(function()) for function in env_fns]
        if not self.envs:
            raise ConfigError("DummyVecEnv needs at least one function that creates an env, got none")
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ConfigError(_served.same_instance())
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self.keys, shapes, dtypes = obs_space_info(first.observation_space)
        self.buf_obs: dict[Any, np.ndarray] = OrderedDict(
            (key, np.zeros((self.num_envs, *shapes[key]), dtypes[key])) for key in self.keys
        )
        self._write_all = Layout(first.observation_space).bulk_writer(list(self.buf_obs.values()))
        self.metadata = first.metadata

    def reset(self) -> VecEnvObs:
        observations = []
        for row, env in enumerate(self.envs):
            given = {"options": self._options[row]} if self._options[row] else {}
            obs, info = env.reset(seed=self._seeds[row], **given)
            self.reset_infos[row] = _isolated(info)
            observations.append(obs)
        self._reset_seeds()
        self._reset_options()
        return self._batched(observations)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        # One tight loop: of 64 envs that do nothing it takes some 15 us, where a copy of every info took SB3 130.
        observations: list[Any] = []
        rewards: list[Any] = []
        infos: list[dict[str, Any]] = []
        ended: list[int] = []
        keep_obs, keep_reward, keep_info = observations.append, rewards.append, infos.append
        actions, row = self.actions, 0
        for env in self.envs:
            obs, reward, terminated, truncated, info = env.step(actions[row])
            told = _isolated(info) if info else {}
            told["TimeLimit.truncated"] = truncated and not terminated
            if terminated or truncated:
                ended.append(row)
                told["terminal_observation"] = copy.deepcopy(obs)  # before a reset that may write into the same array
                obs, info = env.reset()
                self.reset_infos[row] = _isolated(info)
            keep_obs(obs)
            keep_reward(reward)
            keep_info(told)
            row += 1  # noqa: SIM113  # enumerate is slower
        dones = np.zeros(row, np.bool_)
        if ended:
            dones[ended] = True
        return self._batched(observations), _as_rewards(rewards), dones, infos

    def _batched(self, observations: list[Any]) -> VecEnvObs:
        """Single observations as new arrays, cast to the dtypes of the space."""
        if not self._write_all(_EVERYONE, observations):
            for row, obs in enumerate(observations):
                for key, column in self.buf_obs.items():
                    column[row] = obs if key is None else obs[key]
        if self.keys == [None]:
            return self.buf_obs[None].copy()
        return dict_to_obs(
            self.observation_space, OrderedDict((key, column.copy()) for key, column in self.buf_obs.items())
        )

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        if self.render_mode != "rgb_array":
            warnings.warn(no_images(self.render_mode), stacklevel=2)
            return [None] * self.num_envs
        return [env.render() for env in self.envs]  # type: ignore[misc]  # arrays in this mode

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [_served.read(env, attr_name) for env in self._get_target_envs(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        for env in self._get_target_envs(indices):
            _served.write(env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        envs = self._get_target_envs(indices)
        return [_served.call(env, method_name, method_args, method_kwargs) for env in envs]

    def env_is_wrapped(self, wrapper_class: type[gymnasium.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        name = _served.name_of(wrapper_class)
        return [_served.is_wrapped(env, name) for env in self._get_target_envs(indices)]

    def _get_target_envs(self, indices: VecEnvIndices) -> list[gymnasium.Env[Any, Any]]:
        return [self.envs[index] for index in self._get_indices(indices)]


def no_images(render_mode: str | None) -> str:
    """The warning of envs that are asked for images they cannot give."""
    return f"The render mode is {render_mode}, but this method assumes it is `rgb_array` to obtain images."


def _isolated(info: dict[str, Any]) -> dict[str, Any]:
    """A copy of an info that shares nothing that its env could change later."""
    return {key: value if type(value) in _ATOMS else copy.deepcopy(value) for key, value in info.items()}


def _as_rewards(rewards: list[Any]) -> np.ndarray:
    try:
        column = np.array(rewards, np.float32)
    except ValueError:  # some are arrays
        column = np.empty(0, np.float32)
    if column.shape == (len(rewards),):
        return column
    column = np.empty(len(rewards), np.float32)
    for row, reward in enumerate(rewards):
        column[row] = np.asarray(reward).item()
    return column
