"""Gymnasium's registry as a door to `vecenv.make`: `gymnasium.make_vec("vecenv:vecenv/<id>", ...)`."""

from __future__ import annotations

import copy
import functools
import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry

from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.source import NAMESPACE, kernel_spec, own_id, task_source
from vecenv._util.specs import find_spec, without_module
from vecenv.errors import MissingExtra
from vecenv.kernel.language.agents import has_agents, slot_params
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.registry import GAMES, OF_OTHERS, SHIPPED, find_kernel, kernel_of
from vecenv.mujoco._registry import find_task


def register(id: str) -> str:
    """Make an env of Gymnasium's registry available as `vecenv/<id>`, and return that id.

    `gymnasium.make_vec("vecenv/<id>", num_envs=...)` is then `vecenv.make(id, num_envs, ...)`: its keyword arguments go
    to `vecenv.make`, which hands the env's own on. The envs that Gymnasium itself registers are available already.
    """
    id = without_module(id)
    ours = own_id(id)
    if ours not in registry:
        _register(gymnasium.spec(id), ours)
    return ours


def register_kernel(kernel: Kernel) -> None:
    """Make a kernel available as `vecenv/<id>`: a Python env by `gymnasium.make`, native code by `make_vec`."""
    if kernel.id in SHIPPED or has_agents(kernel.definition):
        return  # `register_all` did so; Gymnasium's envs have one agent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Overriding environment ... already in registry", in a notebook cell
        gymnasium.register(
            id=own_id(kernel.id),
            entry_point=kernel_spec(kernel).entry_point,
            vector_entry_point=functools.partial(_make_registered, kernel.id),  # type: ignore[arg-type]  # any creator
            max_episode_steps=kernel.max_episode_steps,
        )


def make_env(id: Any, **kwargs: Any) -> Any:
    """One env in plain Python: a kernel as the class that was written, with breakpoints; any other as Gymnasium's.

    A kernel with `agents` is a PettingZoo parallel env, any other a `gymnasium.Env`.

    Args:
        id: of a kernel or a MuJoCo task, or of any Gymnasium env; or the class of a task.
        **kwargs: constructor arguments, `render_mode` and `max_episode_steps` among them.
    """
    id = without_module(id)
    task = find_task(id)
    if task is not None:
        return gymnasium.make(find_spec(task_source(task)), **kwargs)
    kernel = kernel_of(id) or find_kernel(id)
    if kernel is not None and has_agents(kernel.definition):
        return _make_agents(kernel, kwargs)
    if kernel is None or (id in OF_OTHERS and id in registry):
        return gymnasium.make(find_spec(id), **kwargs)
    return gymnasium.make(own_id(id), **kwargs)


def _make_agents(kernel: Kernel, kwargs: dict[str, Any]) -> Any:
    try:
        from vecenv.agents._kernel_env import KernelParallelEnv
    except ImportError as error:
        raise MissingExtra("a kernel with agents is a PettingZoo env; pip install 'vecenv[agents]'") from error
    kwargs = slot_params(kwargs, "all")
    return KernelParallelEnv(gymnasium.make(kernel_spec(kernel), disable_env_checker=True, **kwargs), kernel.id)


def _make_kernel_env(id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """What Gymnasium calls for `vecenv/<id>`."""
    from vecenv.kernel.language.python import KernelEnv

    kernel = find_kernel(id)
    assert kernel is not None
    if kwargs.get("render_mode") is not None and kernel.render is None and id in registry:
        return load_env_creator(gymnasium.spec(id).entry_point)(**kwargs)  # type: ignore[arg-type]  # it draws itself
    return KernelEnv(kernel, **kwargs)


def register_all() -> None:
    """Make our own envs, and every env that is registered now, available under our namespace."""
    for id, spec in list(registry.items()):
        if spec.namespace is None and spec.entry_point is not None and id not in GAMES:  # ale-py has a Breakout-v0 too
            _register(spec, f"{NAMESPACE}/{id}")
    for id, max_episode_steps in GAMES.items():
        _register(EnvSpec(id, entry_point="", max_episode_steps=max_episode_steps), own_id(id))


def _register(spec: EnvSpec, id: str) -> None:
    gymnasium.register(
        id=id,
        entry_point=functools.partial(_make_kernel_env, spec.id) if spec.id in SHIPPED else spec.entry_point,
        vector_entry_point=functools.partial(_make_registered, spec.id),  # type: ignore[arg-type]  # any creator will do
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        additional_wrappers=spec.additional_wrappers,
        kwargs=copy.copy(spec.kwargs),
    )


def _make_registered(id: str, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any) -> VectorEnv:
    """What Gymnasium calls for `vecenv/<id>`."""
    registered = registry[id] if id in registry and id not in GAMES else registry[own_id(id)]
    if max_episode_steps != registered.max_episode_steps:
        kwargs["max_episode_steps"] = max_episode_steps
    return make(own_id(id) if id in OF_OTHERS else id, num_envs, **kwargs)
