"""Single envs of a vector env in worker processes. This module imports neither Stable-Baselines3 nor torch."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from vecenv.errors import ConfigError
from vecenv.sb3.patch_gym import _patch_env

_MARK = "_vecenv_is_served"
_TWINS = ("stable_baselines3.common.", "vecenv.sb3.")
"""Packages of classes that Stable-Baselines3 and vecenv.sb3 both have, under the same names."""
SAME_INSTANCE = (
    "You tried to create multiple environments, but the function to create them returned the same instance "
    "instead of creating different objects. You are probably using `make_vec_env(lambda: env)` or "
    "`DummyVecEnv([lambda: env] * n_envs)`. You should replace `lambda: env` by a `make_env` function that "
    "creates a new instance of the environment at every call (using `gym.make()` for instance)."
)


class WithMask(spaces.Tuple):
    """Observations that carry the mask of allowed actions along, as a second part."""


class Served(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env in a worker. It gets options only if there are any, and its action mask is sent with its observations.

    So a mask needs no message of its own. It is computed after each reset and each step that does not end an episode.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._size = mask_size(env)
        if self._size is None:
            self.step = env.step
        else:
            mask = spaces.MultiBinary(self._size)
            self.observation_space = WithMask((env.observation_space, mask))
            self._ask: Callable[[], Any] = env.get_wrapper_attr("action_masks")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        given = {"options": options} if options else {}
        obs, info = self.env.reset(seed=seed, **given)
        return (obs, info) if self._size is None else ((obs, self._mask()), info)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        over = terminated or truncated
        mask = np.zeros(self._size or 0, np.int8) if over else self._mask()
        return (obs, mask), reward, terminated, truncated, info

    def _mask(self) -> np.ndarray:
        return np.ravel(self._ask()).astype(np.bool_).view(np.int8)


class ServedFactory:
    """Calls a function that makes an env, and wraps the env for a worker."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self) -> Served:
        env = _patch_env(self._function())
        if getattr(env.unwrapped, _MARK, False):
            raise ConfigError(SAME_INSTANCE)
        with contextlib.suppress(AttributeError):  # it has slots
            setattr(env.unwrapped, _MARK, True)
        return Served(env)


def mask_size(env: gymnasium.Env[Any, Any]) -> int | None:
    """How many entries the env's action masks have; None if it has no method `action_masks()`."""
    try:
        method = env.get_wrapper_attr("action_masks")
        inspect.signature(method).bind()
    except (AttributeError, TypeError, ValueError):
        return None
    return _choices(env.action_space)


def _choices(space: Space[Any]) -> int | None:
    """The number of entries of a mask in sb3-contrib's layout."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return 2 * int(np.prod(space.shape))
    return None


# --- functions that vector envs call in the processes of their envs ---------------------------------------------------


def at_rows(
    env: gymnasium.Env[Any, Any], row: int, rows: Collection[int], function: Callable[..., Any], *arguments: Any
) -> Any:
    """Call the function with the env if its row is one of `rows`."""
    return function(env, *arguments) if row in rows else None


def reach(env: gymnasium.Env[Any, Any], action: Callable[..., Any], *arguments: Any) -> Any:
    """Apply an action to the env that the user's function made."""
    return action(env.env if isinstance(env, Served) else env, *arguments)


def call(env: gymnasium.Env[Any, Any], name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a method, searched through the wrappers."""
    return env.get_wrapper_attr(name)(*arguments, **keywords)


def find_wrapper(env: gymnasium.Env[Any, Any], wrapper_name: str) -> gymnasium.Wrapper[Any, Any, Any, Any] | None:
    """The outermost wrapper whose class, or one that it inherits from, has this name (see `name_of`)."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if any(name_of(ancestor) == wrapper_name for ancestor in type(layer).__mro__):
            return layer
        layer = layer.env
    return None


def is_wrapped(env: gymnasium.Env[Any, Any], wrapper_name: str) -> bool:
    """Whether there is such a wrapper."""
    return find_wrapper(env, wrapper_name) is not None


def name_of(wrapper_class: type) -> str:
    """A class by name, so that workers can compare it without importing Stable-Baselines3."""
    name = f"{wrapper_class.__module__}.{wrapper_class.__qualname__}"
    for prefix in _TWINS:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
