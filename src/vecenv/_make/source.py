"""From what a user passes to `make` as env to a `Source`: its kernel, task, games and Python factories."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.envs.registration import EnvSpec, registry
from gymnasium.utils.env_checker import data_equivalence

from vecenv._make.options import check_names
from vecenv._util.checks import positive_int
from vecenv._util.specs import without_module
from vecenv.agents._groups import SlotOptions
from vecenv.agents._sources import NO_SLOTS, agent_env, refuse_slots
from vecenv.atari._games import AtariGames
from vecenv.atari._ids import GAME_IDS, find_game, is_game, load_ale
from vecenv.engines.native.options import SHARED, STRUCTURE, is_installed
from vecenv.engines.python.factories import MakeEnv, check_wrappers, factories, importable, kwargs_per_env
from vecenv.engines.request import Source
from vecenv.errors import ConfigError, ConfigTypeError, MissingExtra
from vecenv.kernel.language.agents import has_agents, slot_params
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.params import common_value, not_per_env
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import GAMES, OF_OTHERS, find_kernel, kernel_of
from vecenv.mujoco._make_env import make_task_env
from vecenv.mujoco._registry import GYMNASIUM, find_task

if TYPE_CHECKING:
    from vecenv.mujoco._task import Task

NAMESPACE = "vecenv"
_OTHER_GAMES = re.compile(r"\w+-v[045]$")
"""Ids of older games, and newer ones without "ALE/", but of others' envs as well."""


def resolve(
    env: Any,
    num_envs: int,
    env_kwargs: Any,
    wrappers: Any,
    kwargs: dict[str, Any],
    preprocessing: Any = None,
    asked: Mapping[str, Any] = NO_SLOTS,
) -> Source:
    """Find what runs the env that a user passes to `make`.

    Args:
        env, num_envs, env_kwargs, wrappers, preprocessing: as in `make`.
        kwargs: more constructor arguments, for all envs.
        asked: `agents`, `end`, `slots`, `groups` and `pad` of `make`.
    """
    num_envs = positive_int("num_envs", num_envs)
    env = [without_module(each) for each in env] if isinstance(env, (list, tuple)) else without_module(env)
    register_games(env)
    if preprocessing is not None or _are_games(env):
        check_names(kwargs)
        refuse_slots(asked, "Atari games have one player")
        return _find_games(env, num_envs, _merge(env_kwargs, kwargs), wrappers, preprocessing)
    task = find_task(env)
    kernel, env = find_build(env) if task is None else (None, task_source(task))
    if kernel is None and task is None:
        env, with_slots = agent_env(env, asked)
        wrappers = wrappers if with_slots is None else (*check_wrappers(wrappers), with_slots)
    else:
        with_agents = kernel is not None and has_agents(kernel.definition)
        refuse_slots(asked, "a kernel has its agents by its definition, and a MuJoCo task has one", with_agents)
    check_names(kwargs, kernel.params if kernel else ())
    if kwargs:
        env_kwargs = _merge(env_kwargs, kwargs)
    if kernel is not None and has_agents(kernel.definition):
        env_kwargs = slot_params(env_kwargs, SlotOptions(end=asked["end"]).end)
    of_task = None if task is None else task_kernel(task, env_kwargs)
    native = kernel or of_task
    each = env_kwargs if native is None else split_parameters(native, env_kwargs, num_envs)
    env_fns, spec = factories(env, num_envs, each, wrappers)
    return Source(env_fns, env_kwargs, spec, kernel=kernel, task=task, task_kernel=of_task)


def _merge(env_kwargs: Any, kwargs: dict[str, Any]) -> Any:
    """Add `kwargs` to every mapping; anything else is left for `kwargs_per_env` to refuse."""
    if env_kwargs is None:
        return kwargs
    if isinstance(env_kwargs, Mapping):
        return {**env_kwargs, **kwargs}
    if isinstance(env_kwargs, (list, tuple)):
        return [_merge(entry, kwargs) for entry in env_kwargs]
    return env_kwargs


# --- kernels ---------------------------------------------------------------------------------------------------------


def find_build(env: Any) -> tuple[Kernel | None, Any]:
    """The kernel of what a user passes as `env`, if it has one, and what Python envs of it are made from.

    A kernel that stands for an env of Gymnasium's is used only as long as that id is still Gymnasium's own.
    """
    kernel = kernel_of(env)
    if kernel is not None:
        return kernel, kernel_spec(kernel)
    if not isinstance(env, str):
        return None, env
    env = without_module(env)
    id = env.removeprefix(f"{NAMESPACE}/")
    kernel_or_none = find_kernel(id)
    if kernel_or_none is None:
        return None, env
    is_ours = id in GAMES and id not in OF_OTHERS  # ale-py registers a Breakout-v0 too; here the name is ours
    is_ours = is_ours or (env.startswith(NAMESPACE) and kernel_or_none.id in OF_OTHERS)
    if id not in registry or is_ours:
        return kernel_or_none, kernel_spec(kernel_or_none)
    own = str(registry[id].entry_point).startswith("gymnasium.envs.")
    return (kernel_or_none if own else None), id


def own_id(id: str) -> str:
    """The id of a kernel in Gymnasium's registry, where an id has one namespace: vecenv/MinAtar-Asterix-v0."""
    return f"{NAMESPACE}/{id.replace('/', '-')}"


def kernel_spec(kernel: Kernel) -> EnvSpec:
    """What Python envs of a kernel are made from: this very definition, whatever the id stands for now."""
    limit = kernel.max_episode_steps
    entry_point: Any = functools.partial(KernelEnv, kernel)
    return EnvSpec(own_id(kernel.id), entry_point=entry_point, max_episode_steps=limit)


def split_parameters(kernel: Kernel, env_kwargs: Any, count: int) -> Any:
    """Arguments of Python envs of a kernel: where a parameter has one value per env, every env gets its own.

    Numbers are Python's: a NumPy scalar would change the type of what an env computes with it.

    Raises:
        ConfigError: a parameter that all envs share has several values.
    """
    _check_shared(kernel, env_kwargs, count)
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


def _check_shared(kernel: Kernel, env_kwargs: Any, count: int) -> None:
    """Raise ConfigError if envs are to have different values of a parameter that they share."""
    for name in kernel.shared_params:
        if isinstance(env_kwargs, (list, tuple)):
            rows = [row if isinstance(row, Mapping) else {} for row in env_kwargs]
            if any(name in row for row in rows):
                common_value(name, [row.get(name, kernel.defaults[name]) for row in rows])
        elif isinstance(env_kwargs, Mapping) and name in env_kwargs and count > 1:
            given: Any = env_kwargs[name]
            if np.ndim(given) == len(kernel.params[name].shape) + 1 and len(given) == count:
                raise not_per_env(name)


def _with_plain_numbers(kernel: Kernel, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.item()
        if name in kernel.params and isinstance(value, (np.generic, np.ndarray)) and not value.ndim
        else value
        for name, value in kwargs.items()
    }


# --- MuJoCo tasks ----------------------------------------------------------------------------------------------------


def task_source(task: type[Task]) -> str | EnvSpec:
    """What Python envs of a task are made from: Gymnasium's own, or the class of the user."""
    if task.id in GYMNASIUM:
        return task.id
    entry_point: Any = functools.partial(make_task_env, task)
    id = f"{NAMESPACE}/{task.id or task.__name__}"
    return EnvSpec(id, entry_point=entry_point, max_episode_steps=task.max_episode_steps)


def task_kernel(task: type[Task], env_kwargs: Any) -> Kernel | None:
    """The kernel of a task with the model that is asked for; None without MuJoCo, or if envs have different models.

    Raises:
        ConfigError: the model is not valid, or envs of a user's task have different models.
        MissingExtra: MuJoCo is not installed, and Gymnasium has no env of this task that could report it.
    """
    if not is_installed():
        if task.id in GYMNASIUM:
            return None
        raise MissingExtra("MuJoCo tasks need MuJoCo; pip install 'vecenv[mujoco]'")
    from vecenv.mujoco._kernel import CAMERA, build_task

    rows = env_kwargs if isinstance(env_kwargs, (list, tuple)) else [env_kwargs]
    shared = [
        {name: row[name] for name in (*STRUCTURE, *CAMERA) if name in row} if isinstance(row, Mapping) else {}
        for row in rows
    ]
    if not all(data_equivalence(entry, shared[0]) for entry in shared):
        if task.id in GYMNASIUM:
            return None
        raise ConfigError(SHARED)
    if task.id in GYMNASIUM and task.id.endswith("-v4"):
        for name in shared[0].keys() & {*STRUCTURE, "default_camera_config"}:
            raise ConfigTypeError(f"{task.id} has no argument {name!r}; v5 has")
    return build_task(task, shared[0])[0]


# --- Atari games -----------------------------------------------------------------------------------------------------


def register_games(env: Any) -> None:
    """If this is the id of a game that is not registered yet, have ale-py register it.

    Raises:
        MissingExtra: ale-py is not installed, and only ale-py can have the id.
    """
    for id in env if isinstance(env, (list, tuple)) else [env]:
        if not isinstance(id, str) or id in registry:
            continue
        if GAME_IDS.match(id):
            load_ale(id)
        elif _OTHER_GAMES.match(id) and find_kernel(id) is None and find_task(id) is None:
            with contextlib.suppress(MissingExtra):  # then it is an unknown id
                load_ale(id)


def _are_games(env: Any) -> bool:
    """Whether these are Atari games: a list of their ids, or an id that nothing else has."""
    if isinstance(env, str):
        return bool(GAME_IDS.match(env)) and is_game(env)
    return isinstance(env, (list, tuple)) and bool(env) and all(is_game(id) for id in env)


def _find_games(env: Any, num_envs: int, env_kwargs: Any, wrappers: Any, preprocessing: Any) -> Source:
    ids = list(env) if isinstance(env, (list, tuple)) else [env] * num_envs
    if len(ids) != num_envs and num_envs != 1:
        raise ConfigError(f"num_envs={num_envs}, but the list has {len(ids)} games; leave num_envs out")
    specs = [find_game(id) for id in ids]
    games = AtariGames.of(specs, kwargs_per_env(env_kwargs, len(ids)), preprocessing)
    around = check_wrappers(wrappers)
    env_fns: list[Any]
    if games.preprocessing is None:
        pairs = zip(specs, games.kwargs, strict=True)
        env_fns = [MakeEnv(importable(spec), row, around) for spec, row in pairs]
    else:
        env_fns = list(games.factories(around))
    return Source(env_fns, env_kwargs, games.spec, games=games)
