"""MuJoCo tasks as one of the builds that an env may have, and what keeps them from being used."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence

from vecenv._make.builds import NAMESPACE, compiled_kwargs, refuses_native, time_limit
from vecenv.engines import Engine
from vecenv.errors import ConfigError, ConfigTypeError, MissingExtra
from vecenv.mujoco._make_env import make_task_env
from vecenv.mujoco._registry import GYMNASIUM

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel
    from vecenv.mujoco._task import Task

_STRUCTURE = ("xml_file", "frame_skip")
"""Arguments that decide what is compiled; they are the same for all envs."""
_SHARED = f"envs of a task share {', '.join(_STRUCTURE)} and the camera; give all rows the same"


def is_installed() -> bool:
    """Whether there is a MuJoCo."""
    return importlib.util.find_spec("mujoco") is not None


def task_source(task: type[Task], env: Any) -> str | EnvSpec:
    """What Python envs of a task are made from: Gymnasium's own, or the class of the user."""
    if task.id in GYMNASIUM:
        return task.id
    entry_point: Any = functools.partial(make_task_env, task)
    id = f"{NAMESPACE}/{task.id or task.__name__}"
    return EnvSpec(id, entry_point=entry_point, max_episode_steps=task.max_episode_steps)


def task_kernel(task: type[Task], env_kwargs: Any) -> Kernel | None:
    """The kernel of a task with the model that is asked for, None without MuJoCo or if envs are to have different ones.

    Raises:
        ConfigError: the model cannot be had, or envs of a user's task are to have different ones.
        MissingExtra: there is no MuJoCo, and no Python env either that could say so.
    """
    if not is_installed():
        if task.id in GYMNASIUM:
            return None
        raise MissingExtra("MuJoCo tasks need MuJoCo; pip install 'vecenv[mujoco]'")
    from vecenv.mujoco._kernel import CAMERA, build_task

    rows = env_kwargs if isinstance(env_kwargs, (list, tuple)) else [env_kwargs]
    shared = [{name: row[name] for name in (*_STRUCTURE, *CAMERA) if name in row} for row in map(_mapping, rows)]
    if not all(data_equivalence(entry, shared[0]) for entry in shared):
        if task.id in GYMNASIUM:
            return None
        raise ConfigError(_SHARED)
    if task.id in GYMNASIUM and task.id.endswith("-v4"):
        for name in shared[0].keys() & {*_STRUCTURE, "default_camera_config"}:
            raise ConfigTypeError(f"{task.id} has no argument {name!r}; v5 has")
    return build_task(task, shared[0])[0]


def refuses_task(
    task: type[Task] | None,
    kernel: Kernel | None,
    env_kwargs: Any,
    *,
    wrappers: Any,
    observation_mode: Any,
    timeout: float | None,
    caller_works: bool,
) -> str | None:
    """Why the MuJoCo engine cannot run this, None if it can."""
    if task is None:
        return (
            "there is no MuJoCo task of this env; write one (vecenv.mujoco.Task), or use engine='sync', 'thread' or "
            "'process'"
        )
    if kernel is None and is_installed():
        return _SHARED
    if kernel is None:
        return "MuJoCo is not installed; pip install 'vecenv[mujoco]'"
    unfit = refuses_native(wrappers, observation_mode, timeout, caller_works)
    if unfit is not None:
        return unfit
    if compiled_kwargs(kernel, env_kwargs)[1].get("render_mode") == "human":
        return "a window shows one env; use engine='sync', or render_mode='rgb_array'"
    return None


def task_reason(task: type[Task]) -> str:
    """Why the MuJoCo engine is used."""
    from importlib.metadata import version

    named = task.id or task.__name__
    equal = "Gymnasium's env" if task.id in GYMNASIUM else "its run in Python"
    return f"{named} is a MuJoCo task: native code around MuJoCo {version('mujoco')}, bit-equal to {equal}"


def task_engine(kernel: Any, count: int, env_kwargs: Any, threads: int) -> Engine:
    """The engine of a task."""
    from vecenv.engines.native.mujoco import MujocoEngine
    from vecenv.mujoco._kernel import CAMERA

    ours, theirs = compiled_kwargs(kernel, env_kwargs)
    left_out = {*_STRUCTURE, *CAMERA}
    several: list[Mapping[str, Any]] = ours if isinstance(ours, list) else [ours]
    rows = [{name: value for name, value in row.items() if name not in left_out} for row in several]
    return MujocoEngine(
        kernel,
        count,
        kwargs=rows if isinstance(ours, list) else rows[0],
        threads=threads,
        render_mode=theirs.get("render_mode"),
        max_episode_steps=time_limit(kernel, theirs),
    )


def _mapping(entry: Any) -> Mapping[str, Any]:
    return entry if isinstance(entry, Mapping) else {}
