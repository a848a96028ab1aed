"""Making vector envs, and looking for wrappers of single ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
from gymnasium.envs.registration import EnvSpec

from vecenv.engines.python.factories import importable
from vecenv.sb3 import _served
from vecenv.sb3.atari_wrappers import AtariWrapper
from vecenv.sb3.base_vec_env import VecEnv
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.monitor import Monitor
from vecenv.sb3.patch_gym import _patch_env

WrapperT = TypeVar("WrapperT", bound=gymnasium.Wrapper)
_Kwargs = dict[str, Any]


def unwrap_wrapper(env: gymnasium.Env[Any, Any], wrapper_class: type[WrapperT]) -> WrapperT | None:
    """The outermost wrapper of this class, or None; our Monitor and Stable-Baselines3's count as one."""
    return _served.find_wrapper(env, _served.name_of(wrapper_class))  # type: ignore[return-value]  # found by its name


def is_wrapped(env: gymnasium.Env[Any, Any], wrapper_class: type[gymnasium.Wrapper]) -> bool:
    """Whether the env is inside a wrapper of this class."""
    return unwrap_wrapper(env, wrapper_class) is not None


def make_vec_env(
    env_id: str | Callable[..., gymnasium.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., gymnasium.Env[Any, Any]] | None = None,
    env_kwargs: _Kwargs | None = None,
    vec_env_cls: Callable[..., Any] | None = None,
    vec_env_kwargs: _Kwargs | None = None,
    monitor_kwargs: _Kwargs | None = None,
    wrapper_kwargs: _Kwargs | None = None,
) -> VecEnv:
    """Make a VecEnv of envs that are inside a Monitor.

    Args:
        env_id: an id, a class, or a function that returns an env.
        n_envs: how many.
        seed: of the first reset: `seed + k` for env k. None draws one.
        start_index: number of the first env, for the names of files and the seeds of action spaces.
        monitor_dir: a directory for a file of each env's episodes, `{number}.monitor.csv`.
        wrapper_class: a wrapper, put around the Monitor.
        env_kwargs: arguments of the env; an id is made with render_mode="rgb_array" unless they say otherwise.
        vec_env_cls: DummyVecEnv, the default, or SubprocVecEnv, or another.
        vec_env_kwargs: its arguments.
        monitor_kwargs: arguments of the Monitor.
        wrapper_kwargs: arguments of the wrapper.
    """
    # A worker does not run the script that registered an id, so it gets the spec instead of the id.
    registered = gymnasium.registry.get(env_id) if isinstance(env_id, str) else None
    source = env_id if registered is None else importable(registered)

    def factory(rank: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def make_one() -> gymnasium.Env[Any, Any]:
            env = _make(source, env_kwargs or {})
            if seed is not None:
                env.action_space.seed(seed + rank)
            if monitor_dir is not None:
                os.makedirs(monitor_dir, exist_ok=True)
            filename = None if monitor_dir is None else os.path.join(monitor_dir, str(rank))
            env = Monitor(env, filename=filename, **(monitor_kwargs or {}))
            return env if wrapper_class is None else wrapper_class(env, **(wrapper_kwargs or {}))

        return make_one

    factories = [factory(start_index + row) for row in range(n_envs)]
    vec_env = (vec_env_cls or DummyVecEnv)(factories, **(vec_env_kwargs or {}))
    vec_env.seed(seed)
    return vec_env


def make_atari_env(
    env_id: str | Callable[..., gymnasium.Env[Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_kwargs: _Kwargs | None = None,
    env_kwargs: _Kwargs | None = None,
    vec_env_cls: Callable[..., Any] | None = None,
    vec_env_kwargs: _Kwargs | None = None,
    monitor_kwargs: _Kwargs | None = None,
) -> VecEnv:
    """`make_vec_env` of Atari games ("...NoFrameskip-v4"), each inside an AtariWrapper with `wrapper_kwargs`."""
    return make_vec_env(
        env_id,
        n_envs=n_envs,
        seed=seed,
        start_index=start_index,
        monitor_dir=monitor_dir,
        wrapper_class=AtariWrapper,
        env_kwargs=env_kwargs,
        vec_env_cls=vec_env_cls,
        vec_env_kwargs=vec_env_kwargs,
        monitor_kwargs=monitor_kwargs,
        wrapper_kwargs=wrapper_kwargs,
    )


def _make(source: str | EnvSpec | Callable[..., gymnasium.Env[Any, Any]], kwargs: _Kwargs) -> gymnasium.Env[Any, Any]:
    if not isinstance(source, (str, EnvSpec)):
        return _patch_env(source(**kwargs))
    try:
        return gymnasium.make(source, **{"render_mode": "rgb_array", **kwargs})
    except TypeError:  # it has no render mode
        return gymnasium.make(source, **kwargs)
