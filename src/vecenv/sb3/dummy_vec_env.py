"""All envs in this process."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.own import ALONE, ATOMS, own
from vecenv.errors import ConfigError
from vecenv.sb3 import _served
from vecenv.sb3.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn, images_of, registered
from vecenv.sb3.patch_gym import _patch_env
from vecenv.sb3.util import dict_to_obs, obs_space_info


@registered
class DummyVecEnv(VecEnv):
    """Envs stepped one after the other. Nothing is checked: what NumPy can store is stored.

    Args:
        env_fns: functions that create the environments.

    Attributes:
        envs: the environments.
        actions: of the running or last step.

    Raises:
        ValueError: two functions returned the same env.
    """

    actions: Any

    def __init__(self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        self.envs = [_patch_env(function()) for function in env_fns]
        if not self.envs:
            raise ConfigError("DummyVecEnv needs at least one function that creates an env, got none")
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ConfigError(_served.SAME_INSTANCE)
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space)
        self.keys, shapes, dtypes = obs_space_info(first.observation_space)
        self.buf_obs: dict[Any, np.ndarray] = OrderedDict(
            (key, np.zeros((self.num_envs, *shapes[key]), dtypes[key])) for key in self.keys
        )
        """Arrays with the shapes and dtypes of observations; returned observations are new arrays."""
        self.metadata = first.metadata

    def reset(self) -> VecEnvObs:
        observations = []
        for row, env in enumerate(self.envs):
            given = {"options": self._options[row]} if self._options[row] else {}
            obs, info = env.reset(seed=self._seeds[row], **given)
            self.reset_infos[row] = _isolated(info)
            observations.append(own(obs))
        self._reset_seeds()
        self._reset_options()
        return self._batched(observations)

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        # The usual results are prepared for all envs; the loop only writes the unusual ones.
        count = self.num_envs
        observations: list[Any] = []
        rewards: list[Any] = []
        keep_obs, keep_reward = observations.append, rewards.append
        ndarray, references, alone = np.ndarray, getrefcount, ALONE
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(count)]
        dones = np.zeros(count, np.bool_)
        if len(self.actions) < count:
            raise IndexError(f"got {len(self.actions)} actions for {count} envs; pass one action per env")
        for env, action in zip(self.envs, self.actions, strict=False):
            result = env.step(action)
            obs, reward, terminated, truncated, info = result
            result = None  # or it would hold what we count the references of
            # What another env may write into is copied before that env runs; see `_batch/own.py`.
            if type(obs) is not ndarray:
                held = references(obs) > alone
                obs = own(obs, held)
            elif obs.base is not None or references(obs) > alone:
                obs = obs.copy()
            if terminated or truncated or info:
                row = len(rewards)
                step_info = infos[row] = _isolated(info)
                step_info["TimeLimit.truncated"] = truncated and not terminated
                if terminated or truncated:
                    dones[row] = True
                    step_info["terminal_observation"] = obs
                    obs, info = env.reset()
                    obs = own(obs)
                    self.reset_infos[row] = _isolated(info)
            keep_obs(obs)
            keep_reward(own(reward) if type(reward) is ndarray else reward)
        return self._batched(observations), _as_rewards(rewards), dones, infos

    def _batched(self, observations: list[Any]) -> VecEnvObs:
        """Single observations as new arrays, cast to the dtypes of the space."""
        if self.keys == [None]:
            return _column(observations, self.buf_obs[None])
        parts = OrderedDict(
            (key, _column([obs[key] for obs in observations], like)) for key, like in self.buf_obs.items()
        )
        return dict_to_obs(self.observation_space, parts)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        return images_of(self)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [env.get_wrapper_attr(attr_name) for env in self._get_target_envs(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        for env in self._get_target_envs(indices):
            setattr(env, attr_name, value)

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


def _isolated(info: dict[str, Any]) -> dict[str, Any]:
    """A copy of an info that shares no mutable value with the env."""
    return {key: value if type(value) in ATOMS else copy.deepcopy(value) for key, value in info.items()}


def _column(values: list[Any], like: np.ndarray) -> np.ndarray:
    """A new array of the values with the shape and dtype of `like`; they are cast and broadcast as NumPy can."""
    try:
        joined = _joined(values, like)
    except (AttributeError, BufferError, TypeError, ValueError):
        joined = None
    if joined is not None:
        return joined
    column = np.empty_like(like)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _joined(values: list[Any], like: np.ndarray) -> np.ndarray | None:
    """The same, many times faster, for arrays that need no cast; None or an error for any others."""
    if like.ndim == 1 or set(map(len, values)) != {like.shape[1]}:
        return None
    if like.ndim == 2:
        if [value.dtype for value in values].count(like.dtype) != len(values):
            return None
        return np.frombuffer(bytearray().join(values), like.dtype).reshape(like.shape)  # a third of concatenate's time
    joined = np.concatenate(values, dtype=like.dtype, casting="equiv")
    return joined.reshape(like.shape) if joined.shape[1:] == like.shape[2:] else None


def _as_rewards(rewards: list[Any]) -> np.ndarray:
    try:
        return np.fromiter(rewards, np.float32, len(rewards))
    except ValueError:  # some are arrays of one number
        return np.array([np.asarray(reward).item() for reward in rewards], np.float32)
