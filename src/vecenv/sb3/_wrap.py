"""From vecenv's vector envs to Stable-Baselines3's, and back."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate

from vecenv._front.infos import as_arrays, objects
from vecenv._front.reset_options import ResetOptions
from vecenv._front.vector_env import VectorEnv
from vecenv.agents import FlatVectorEnv, MultiAgentVectorEnv
from vecenv.errors import ConfigTypeError, UnsupportedError
from vecenv.sb3._agents import AgentVecEnv
from vecenv.sb3._front import FrontVecEnv
from vecenv.sb3.base_vec_env import is_vec_env
from vecenv.wrappers import Wrapper


def wrap(envs: VectorEnv | Wrapper | FlatVectorEnv) -> FrontVecEnv | AgentVecEnv:
    """Any of vecenv's vector envs as an SB3 VecEnv, for all of SB3's algorithms and wrappers.

    Args:
        envs: compiled, process, thread or sync, with or without wrappers; made with autoreset="same-step". With several
            agents `envs.flat()`, a row per agent: pass its `valid` to `vecenv.sb3.RolloutBuffer`, which drops rows of
            dead agents.

    Raises:
        ConfigError: they were made with another autoreset mode, or hand out views of memory that is overwritten.
    """
    if isinstance(envs, (VectorEnv, Wrapper)):
        return FrontVecEnv(envs)
    if isinstance(envs, FlatVectorEnv):
        return AgentVecEnv(envs)
    if isinstance(envs, MultiAgentVectorEnv):
        raise ConfigTypeError("these envs have several agents; wrap(envs.flat()) has a row for each of them")
    hint = "it is one already" if is_vec_env(envs) else "see vecenv.make, or use DummyVecEnv for functions that do"
    raise ConfigTypeError(f"wrap() makes an SB3 VecEnv of a vector env of vecenv, got {type(envs).__name__}; {hint}")


def unwrap(venv: Any) -> gymnasium.vector.VectorEnv:
    """A Gymnasium vector env of an SB3 VecEnv: what was given to `wrap`, or `from_sb3` of any other."""
    if type(venv) is AgentVecEnv:
        return venv._flat
    return venv._envs if type(venv) is FrontVecEnv else from_sb3(venv)


def from_sb3(venv: Any) -> FromSB3:
    """An SB3 VecEnv, also one of a third party, as a Gymnasium vector env in same-step mode."""
    if not is_vec_env(venv):
        raise ConfigTypeError(f"from_sb3() needs a VecEnv, got {type(venv).__name__}")
    return FromSB3(venv)


class FromSB3(gymnasium.vector.VectorEnv):
    """An SB3 VecEnv seen as a Gymnasium vector env.

    Where an episode ended, `obs` belongs to the next one, and infos have "final_obs" and "final_info". Rewards are
    float64, whatever the VecEnv returns.

    Args:
        venv: the VecEnv; `close` closes it.
    """

    def __init__(self, venv: Any) -> None:
        self.venv = venv
        self.num_envs = venv.num_envs
        self.single_observation_space = venv.observation_space
        self.single_action_space = venv.action_space
        self.observation_space = batch_space(venv.observation_space, venv.num_envs)
        self.action_space = batch_space(venv.action_space, venv.num_envs)
        self.render_mode = venv.render_mode
        self.metadata = {**venv.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._plain = not isinstance(self.single_action_space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes of all envs.

        Args:
            seed: None; an int: env k gets `seed + k`; or one int or None per env.
            options: one dict for all envs, or one per env. SB3 resets all envs together: no "reset_mask".
        """
        given = ResetOptions.parse(options, self.num_envs)
        if given.mask is not None:
            raise UnsupportedError("an SB3 VecEnv resets all envs together; leave options['reset_mask'] out")
        base = self.venv.unwrapped
        if seed is not None:
            is_one = isinstance(seed, (int, np.integer))
            base._seeds = [seed + row for row in range(self.num_envs)] if is_one else [*seed]
        if options is not None:
            base.set_options([options or {} for options in given.per_env])
        obs = self.venv.reset()
        return obs, as_arrays(enumerate(base.reset_infos), self.num_envs)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs."""
        given = actions if self._plain else list(iterate(self.action_space, actions))
        obs, rewards, dones, step_infos = self.venv.step(given)
        dones = np.array(dones, np.bool_)
        infos = [dict(info) for info in step_infos]
        truncated = np.array([bool(info.pop("TimeLimit.truncated", False)) for info in infos]) & dones
        final: dict[str, Any] = {}
        ended = np.flatnonzero(dones).tolist()
        if ended:
            last = (infos[row].pop("terminal_observation") for row in ended)
            final["final_obs"] = objects(ended, last, self.num_envs)
            final["final_info"] = as_arrays(((row, infos[row]) for row in ended), self.num_envs)
            final["_final_obs"], final["_final_info"] = dones.copy(), dones.copy()
            resets = self.venv.unwrapped.reset_infos
            infos = [resets[row] if done else info for row, (done, info) in enumerate(zip(dones, infos, strict=True))]
        rendered = as_arrays(enumerate(infos), self.num_envs) | final
        return obs, np.asarray(rewards, np.float64), dones & ~truncated, truncated, rendered

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env."""
        return tuple(self.venv.get_images())

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute."""
        if args or kwargs:
            return tuple(self.venv.env_method(name, *args, **kwargs))
        values = self.venv.get_attr(name)
        return tuple(value() if callable(value) else value for value in values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env: a list or tuple has one value per env, anything else is for all."""
        each = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        for row, value in enumerate(each):
            self.venv.set_attr(name, value, indices=row)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the VecEnv."""
        self.venv.close()
