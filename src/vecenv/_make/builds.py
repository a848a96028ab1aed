"""Which builds an env has: a kernel, Python factories, or both; and what keeps the kernel from being used."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec, registry

from vecenv._util.checks import positive_int
from vecenv.errors import ConfigError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.python import KernelEnv, metadata_of
from vecenv.kernel.language.registry import GAMES, find_kernel, kernel_of

NAMESPACE = "vecenv"
_OF_GYMNASIUM_MAKE = ("max_episode_steps", "disable_env_checker", "render_mode")
"""Arguments that are `gymnasium.make`'s, not the env's."""


def find_build(env: Any) -> tuple[Kernel | None, Any]:
    """The kernel of what a user passes as `env`, if it has one, and what Python envs of it are made from.

    A kernel that stands for an env of Gymnasium's is used only as long as that id is still Gymnasium's own.
    """
    kernel = kernel_of(env)
    if kernel is not None:
        return kernel, kernel_spec(kernel)
    if not isinstance(env, str):
        return None, env
    id = env.removeprefix(f"{NAMESPACE}:").removeprefix(f"{NAMESPACE}/")
    kernel_or_none = find_kernel(id)
    if kernel_or_none is None:
        return None, env
    if id not in registry or id in GAMES:  # ale-py registers a Breakout-v0 too; here the name is ours
        return kernel_or_none, kernel_spec(kernel_or_none)
    own = str(registry[id].entry_point).startswith("gymnasium.envs.")
    return (kernel_or_none if own else None), id


def kernel_spec(kernel: Kernel) -> EnvSpec:
    """What Python envs of a kernel are made from: this very definition, whatever the id stands for now."""
    limit = kernel.max_episode_steps
    entry_point: Any = functools.partial(KernelEnv, kernel)
    return EnvSpec(f"{NAMESPACE}/{kernel.id}", entry_point=entry_point, max_episode_steps=limit)


def compiled_kwargs(kernel: Kernel, env_kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Split constructor arguments into the kernel's (one mapping, or one per env) and those of `gymnasium.make`."""
    registered = registry[kernel.id].kwargs if _is_gymnasiums(kernel) else {}
    if isinstance(env_kwargs, (list, tuple)):
        rows = [{**registered, **(entry or {})} for entry in env_kwargs]
        if any(_only(row) != _only(rows[0]) for row in rows):
            raise ConfigError("envs of a kernel share max_episode_steps and render_mode; give all rows the same")
        return [_without(row) for row in rows], _only(rows[0])
    given = {**registered, **(env_kwargs or {})}
    return _without(given), _only(given)


def refuses_compiled(
    kernel: Kernel | None,
    env_kwargs: Any,
    *,
    wrappers: Any = None,
    observation_mode: Any = "same",
    timeout: float | None = None,
    caller_works: bool = False,
) -> str | None:
    """Why native code cannot run this, None if it can."""
    if kernel is None:
        return (
            "there is no kernel of this env; write one with @vecenv.kernel, or use engine='sync', 'thread' or 'process'"
        )
    unfit = refuses_native(wrappers, observation_mode, timeout, caller_works)
    if unfit is not None:
        return unfit
    render_mode = compiled_kwargs(kernel, env_kwargs)[1].get("render_mode")
    modes = metadata_of(kernel)["render_modes"]
    if render_mode is not None and (kernel.render is None or render_mode not in modes):
        return f"the kernel of {kernel.id} cannot draw {render_mode!r}; Gymnasium's own env may, with engine='sync'"
    return None


def refuses_native(wrappers: Any, observation_mode: Any, timeout: float | None, caller_works: bool) -> str | None:
    """Why envs that are native code cannot be run so, None if they can."""
    if wrappers:
        return "wrappers wrap Python envs, and native code has none; use engine='sync', 'thread' or 'process'"
    if observation_mode != "same":
        return "envs that are native code all have the same spaces; leave observation_mode out"
    if timeout is not None:
        return "native code cannot be interrupted when it hangs; use engine='process', or leave timeout out"
    if caller_works:
        return "native code runs in the calling thread already; leave caller_works out, or use engine='process'"
    return None


def split_parameters(kernel: Kernel, env_kwargs: Any, count: int) -> Any:
    """Arguments of Python envs of a kernel: where a parameter has one value per env, every env gets its own.

    Numbers are Python's: a NumPy scalar would change the type of what an env computes with it.
    """
    if isinstance(env_kwargs, (list, tuple)):
        return [_with_plain_numbers(kernel, row) if isinstance(row, Mapping) else row for row in env_kwargs]
    if not isinstance(env_kwargs, Mapping):
        return env_kwargs
    several = [
        name
        for name, value in env_kwargs.items()
        if name in kernel.params and np.ndim(value) == len(kernel.params[name].shape) + 1 and len(value) == count
    ]
    if not several:
        return _with_plain_numbers(kernel, env_kwargs)
    rows = [{**env_kwargs, **{name: env_kwargs[name][row] for name in several}} for row in range(count)]
    return [_with_plain_numbers(kernel, row) for row in rows]


def _with_plain_numbers(kernel: Kernel, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.item()
        if name in kernel.params and isinstance(value, (np.generic, np.ndarray)) and not value.ndim
        else value
        for name, value in kwargs.items()
    }


def _is_gymnasiums(kernel: Kernel) -> bool:
    """Whether the kernel stands for an env that Gymnasium itself registers."""
    return kernel.id in registry and str(registry[kernel.id].entry_point).startswith("gymnasium.envs.")


def _without(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in _OF_GYMNASIUM_MAKE}


def _only(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name in _OF_GYMNASIUM_MAKE}


def time_limit(kernel: Kernel, given: Mapping[str, Any]) -> int | None:
    """Steps of an episode: what was asked for (-1 for no limit, as in Gymnasium), else the registered limit."""
    asked = given.get("max_episode_steps")
    if asked is not None:
        return None if asked == -1 else positive_int("max_episode_steps", asked)
    return registry[kernel.id].max_episode_steps if _is_gymnasiums(kernel) else kernel.max_episode_steps
