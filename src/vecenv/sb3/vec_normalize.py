"""Observations and rewards normalised with running statistics."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv.errors import ConfigError, SpaceError
from vecenv.sb3 import _normalize_files as files
from vecenv.sb3.base_vec_env import VecEnv, VecEnvStepReturn, VecEnvWrapper, registered
from vecenv.sb3.running_mean_std import RunningMeanStd
from vecenv.wrappers._observations import is_image
from vecenv.wrappers._rewards import add_rewards

Obs = np.ndarray | dict[str, np.ndarray]


@registered
class VecNormalize(VecEnvWrapper):
    """Observations with mean 0 and variance 1; rewards divided by the deviation of the discounted returns.

    Statistics are float64, results are new float32 arrays. NaN and infinity are passed on and do not change statistics;
    `obs_rms.skipped` and `ret_rms.skipped` count them. Threads may share `normalize_obs`.

    Args:
        venv: to be wrapped.
        training: whether statistics are updated.
        norm_obs: whether observations are normalised: a Box, or Boxes in a Dict.
        norm_reward: whether rewards are.
        clip_obs: the largest absolute value of an observation.
        clip_reward: the largest absolute value of a reward.
        gamma: of the discounted returns.
        epsilon: is added to variances.
        norm_obs_keys: which keys of a Dict; None is all.

    Attributes:
        obs_rms: statistics of the observations, by key for a Dict; only there if they are normalised.
        ret_rms: statistics of the discounted returns.
        returns: discounted returns of the running episodes.

    Raises:
        ValueError: the space cannot be normalised.
    """

    obs_rms: RunningMeanStd | dict[str, RunningMeanStd]
    old_obs: Obs

    def __init__(
        self,
        venv: VecEnv,
        training: bool = True,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        norm_obs_keys: list[str] | None = None,
    ) -> None:
        super().__init__(venv)
        self.training = training
        self.norm_obs = norm_obs
        self.norm_reward = norm_reward
        self.clip_obs = clip_obs
        self.clip_reward = clip_reward
        self.gamma = gamma
        self.epsilon = epsilon
        self.norm_obs_keys = norm_obs_keys
        if norm_obs:
            self._normalise_spaces()
        self.ret_rms = RunningMeanStd(shape=())
        self.returns = np.zeros(self.num_envs)
        self.old_reward = np.array([])

    # --- the VecEnv --------------------------------------------------------------------------------------------------

    def reset(self) -> Obs:
        """Begin an episode in every env; their first observations count."""
        self.old_obs = obs = _supported(self.venv.reset())
        self.returns = np.zeros(self.num_envs)
        return self._observe(obs)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step. "terminal_observation" is normalised as well, but does not count."""
        obs, rewards, dones, infos = self.venv.step_wait()
        self.old_obs, self.old_reward = _supported(obs), rewards
        normalised = self._observe(self.old_obs)
        if self.training:
            self._update_reward(rewards)
        for row in np.flatnonzero(dones).tolist():
            if "terminal_observation" in infos[row]:
                infos[row]["terminal_observation"] = self.normalize_obs(infos[row]["terminal_observation"])
        self.returns[dones] = 0
        return normalised, self.normalize_reward(rewards), dones, infos

    def get_original_obs(self) -> Obs:
        """A copy of the latest observations as the envs gave them."""
        return deepcopy(self.old_obs)

    def get_original_reward(self) -> np.ndarray:
        """A copy of the latest rewards as the envs gave them."""
        return self.old_reward.copy()

    # --- the arithmetic ----------------------------------------------------------------------------------------------

    def normalize_obs(self, obs: Obs) -> Obs:
        """Normalise observations, of any number of envs or of one. Statistics are not updated, `obs` is not changed."""
        return self._each(obs, lambda statistics, part: statistics.normalize(part, self.epsilon, self.clip_obs))

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """Undo `normalize_obs`, except for what was clipped: float64."""
        return self._each(obs, lambda statistics, part: statistics.unnormalize(part, self.epsilon))

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Scale rewards: a float32 copy, even if they are not normalised. Statistics are not updated."""
        if not self.norm_reward:
            return reward.astype(np.float32)
        return self.ret_rms.scale(reward, self.epsilon, self.clip_reward)

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Undo `normalize_reward`, except for what was clipped."""
        return reward * self.ret_rms.std(self.epsilon) if self.norm_reward else reward

    def _observe(self, obs: Obs) -> Obs:
        """Normalise the results of the envs; if training, after updating the statistics with them."""
        if not self.training:
            return self.normalize_obs(obs)
        return self._each(
            obs, lambda statistics, part: statistics.update_and_normalize(part, self.epsilon, self.clip_obs)
        )

    def _each(self, obs: Obs, function: Callable[[RunningMeanStd, np.ndarray], np.ndarray]) -> Obs:
        """Apply a function to what is normalised and copy the rest."""
        if not self.norm_obs:
            return deepcopy(obs)
        known = self.obs_rms
        if not isinstance(known, dict):
            return function(known, obs)  # type: ignore[arg-type]  # an array, as the space is
        assert isinstance(obs, dict), "the observations should be a dict"
        return {key: function(known[key], part) if key in known else deepcopy(part) for key, part in obs.items()}

    def _update_reward(self, reward: np.ndarray) -> None:
        self.returns = self.returns * self.gamma  # not in place: the caller may have kept it
        add_rewards(self.returns, slice(None), self.returns, reward, self.ret_rms)

    def __setattr__(self, name: str, value: Any) -> None:
        # Stable-Baselines3's sync_envs_normalization assigns statistics, which may be its own.
        super().__setattr__(name, _own(value) if name in ("obs_rms", "ret_rms") else value)

    # --- spaces ------------------------------------------------------------------------------------------------------

    def _normalise_spaces(self) -> None:
        """Check which observations are normalised, and create their statistics."""
        space = self.observation_space
        self.norm_obs_keys = keys = _check_keys(space, self.norm_obs_keys)
        if keys is None:
            self.obs_rms = RunningMeanStd(shape=space.shape or ())
            self.observation_space = self._normalised(space)
        else:
            parts: dict[str, Any] = {key: space[key] for key in keys}  # type: ignore[index]  # a Dict
            self.obs_rms = {key: RunningMeanStd(shape=part.shape) for key, part in parts.items()}
            normalised = {key: self._normalised(part) for key, part in parts.items()}
            self.observation_space = spaces.Dict({**space.spaces, **normalised})  # type: ignore[attr-defined]  # a Dict

    def _normalised(self, space: Space[Any]) -> Space[Any]:
        """Images become floats; other bounds stay as they are, so that policies of Stable-Baselines3 still fit."""
        return spaces.Box(-self.clip_obs, self.clip_obs, space.shape, np.float32) if is_image(space) else space

    # --- files -------------------------------------------------------------------------------------------------------

    def save(self, save_path: str | os.PathLike[str], format: files.Format | None = None) -> None:
        """Write settings and statistics to a file.

        Args:
            save_path: exactly this path, no suffix is added. An existing file is replaced.
            format: "vecenv" is data only and can be loaded from anyone. "sb3" is a pickle for Stable-Baselines3. None:
                "sb3" if the path ends in ".pkl", as those of SB3's `CheckpointCallback` do, else "vecenv".
        """
        if format is None:
            format = "sb3" if os.fsdecode(save_path).endswith(".pkl") else "vecenv"
        if format == "vecenv":
            files.write(save_path, self._contents())
        elif format == "sb3":
            names = ("num_envs", "observation_space", "action_space", "render_mode", "metadata")
            files.write_pickle(save_path, self._contents(), {name: getattr(self, name) for name in names})
        else:
            raise ConfigError(f"format must be 'vecenv' or 'sb3', got {format!r}")

    @classmethod
    def load(cls, load_path: str | os.PathLike[str], venv: VecEnv) -> VecNormalize:
        """Wrap `venv` with what a file holds, ours or a pickle of Stable-Baselines3. Nothing in the file is run.

        Raises:
            UnsafeFile: the file would run code, or is damaged.
            SpaceError: it belongs to other observations.
        """
        contents = files.read(load_path)
        shapes = _shapes(venv.observation_space)
        if contents.shapes != shapes:
            raise SpaceError(f"{load_path} is of observations with shapes {contents.shapes}, these have {shapes}")
        loaded = cls(venv, **vars(contents.settings))
        if contents.obs:
            is_dict = isinstance(venv.observation_space, spaces.Dict)
            loaded.obs_rms = _own(contents.obs if is_dict else contents.obs[""])
        loaded.ret_rms = _own(contents.returns)
        return loaded

    def set_venv(self, venv: VecEnv) -> None:
        """Wrap `venv`, after this wrapper was unpickled.

        Raises:
            ValueError: it wraps one already.
            SpaceError: the observations have other shapes.
        """
        if self.venv is not None:
            raise ConfigError("Trying to set venv of already initialized VecNormalize wrapper.")
        own, others = _shapes(self.observation_space), _shapes(venv.observation_space)
        if own != others:
            raise SpaceError(f"the wrapper is of observations with shapes {own}, these have {others}")
        self.venv = venv
        self.num_envs = venv.num_envs
        self.render_mode = venv.render_mode
        self.class_attributes = dict(inspect.getmembers(type(self)))
        self.returns = np.zeros(self.num_envs)

    def _contents(self) -> files.Contents:
        settings = files.settings_of(vars(self), bool, float)
        known = vars(self).get("obs_rms", {})
        by_key = known if isinstance(known, dict) else {"": known}
        obs = {key: _statistics(statistics) for key, statistics in by_key.items()}
        return files.Contents(settings, _shapes(self.observation_space), obs, _statistics(self.ret_rms))

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("venv", "class_attributes", "returns")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the wrapper without an env; `set_venv` gives it one."""
        vars(self).update(state, venv=None)


def _check_keys(space: Space[Any], keys: list[str] | None) -> list[str] | None:
    """The keys to normalise; None for a Box."""
    if isinstance(space, spaces.Box):
        if keys is not None:
            raise ConfigError("`norm_obs_keys` is applicable only with Dict observation spaces")
        return None
    if not isinstance(space, spaces.Dict):
        raise ConfigError(f"VecNormalize only supports Box and Dict observation spaces, not {space}")
    keys = list(space.spaces) if keys is None else keys
    for key in keys:
        if not isinstance(space[key], spaces.Box):
            raise ConfigError(
                f"VecNormalize only supports Box spaces in a Dict, but {key!r} is {space[key]}. You should probably "
                "explicitly pass the observation keys to be normalized as `norm_obs_keys`"
            )
    return keys


def _shapes(space: Space[Any]) -> dict[str, tuple[int, ...] | None]:
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    return {key: part.shape for key, part in parts.items()}


def _own(statistics: Any) -> Any:
    """Statistics, or a dict of them, as ours."""
    if isinstance(statistics, dict):
        return {key: _own(part) for key, part in statistics.items()}
    return statistics if isinstance(statistics, RunningMeanStd) else RunningMeanStd.of(statistics)


def _statistics(moments: RunningMeanStd) -> files.Statistics:
    return files.Statistics(np.array(moments.mean, np.float64), np.array(moments.var, np.float64), float(moments.count))


def _supported(obs: Any) -> Obs:
    assert isinstance(obs, (np.ndarray, dict)), f"VecNormalize supports arrays and dicts, got {type(obs).__name__}"
    return obs
