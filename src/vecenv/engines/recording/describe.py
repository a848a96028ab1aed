"""How an env was built, in words that a file can hold: ids, and names of code."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from vecenv.engines.python.factories import MakeEnv
from vecenv.engines.recording.values import NotData, pack
from vecenv.kernel.language.python import KernelEnv
from vecenv.mujoco._make_env import make_task_env


def describe_build(factory: Callable[..., Any]) -> dict[str, Any]:
    """`Recording.build` for the env that a factory makes."""
    made = factory if isinstance(factory, MakeEnv) else MakeEnv(factory)
    try:
        wrappers = [_wrapper(wrapper) for wrapper in made.wrappers]
        described = _source(made.source, dict(made.kwargs))
        pack(described, [], "the env")
    except NotData as error:
        return _unknown(factory, str(error))
    return {**described, "wrappers": wrappers}


def describe_kernel(factory: Callable[..., Any], kernel: Any, max_episode_steps: int | None) -> dict[str, Any]:
    """The same for rows that native code runs; `factory` makes the Python env that is their twin."""
    kwargs = dict(factory.kwargs) if isinstance(factory, MakeEnv) else {}
    described = {**_kernel(kernel, kwargs), "max_episode_steps": max_episode_steps, "wrappers": []}
    try:
        pack(described, [], "the env")
    except NotData as error:
        return _unknown(kernel.definition, str(error))
    return described


def name_of(build: Mapping[str, Any]) -> str:
    """The env in one word, for names of files."""
    named = build.get("id") or str(build.get("where", "")).rpartition(":")[2] or "env"
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in named)[:80].strip(".-") or "env"


def _source(source: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(source, EnvSpec):
        found = _reference(source)
        return {**found, "kwargs": {**found["kwargs"], **kwargs}}
    entry_point: Any = source.entry_point
    if isinstance(entry_point, functools.partial) and entry_point.func in (KernelEnv, make_task_env):
        return {**_kernel(entry_point.args[0], kwargs), "max_episode_steps": source.max_episode_steps}
    registered = registry.get(source.id)
    known = {} if registered is None else registered.kwargs
    own = {name: value for name, value in source.kwargs.items() if name not in known or known[name] is not value}
    if source.additional_wrappers and (registered is None or source is not registered):
        raise NotData(f"{source.id} is an EnvSpec with additional_wrappers")
    described = {"kind": "id", "id": source.id, "entry_point": None, "kwargs": {**own, **kwargs}}
    if isinstance(entry_point, str):
        described["entry_point"] = entry_point
    elif not isinstance(entry_point, functools.partial):
        named = _reference(entry_point)
        described |= {"entry_point": named["where"]} | ({"file": named["file"]} if "file" in named else {})
    for name in ("max_episode_steps", "order_enforce", "disable_env_checker"):
        described[name] = getattr(source, name)
    return described


def _kernel(kernel: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """A kernel, or the class of a MuJoCo task."""
    definition = kernel if isinstance(kernel, type) else getattr(kernel, "task", kernel.definition)
    try:
        named = _reference(definition)
    except NotData:
        named = {"where": None}
    id = getattr(kernel, "id", None) or definition.__name__
    file = {"file": named["file"]} if "file" in named else {}
    return {"kind": "kernel", "id": id, "where": named["where"], "params": kwargs, **file}


def _wrapper(wrapper: Any) -> dict[str, Any]:
    try:
        described = _reference(wrapper)
        pack(described, [], "a wrapper")
    except NotData as error:
        return _unknown(wrapper, str(error))
    return described


def _unknown(value: Any, why: str) -> dict[str, Any]:
    return {"kind": "unknown", "repr": f"{value!r:.300}", "why": why}


def _reference(target: Any) -> dict[str, Any]:
    """Where a function or class can be imported from, and the arguments of partials around it. Raises NotData."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    while isinstance(target, functools.partial):
        args, kwargs, target = [*target.args, *args], {**target.keywords, **kwargs}, target.func
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise NotData(f"it is made by an object of the class {type(target).__qualname__}, which no file can name")
    if "<" in name:
        kind = "a lambda" if "<lambda>" in name else "a function inside another"
        raise NotData(f"it is made by {kind} ({name}), which no file can name; define it in a module")
    if _lookup(module, name) != target:
        raise NotData(f"{module}:{name} is not what made it; define it in a module")
    described = {"kind": "reference", "where": f"{module}:{name}", "args": args, "kwargs": kwargs}
    file = getattr(sys.modules["__main__"], "__file__", None)
    if module == "__main__" and file is not None:
        described["file"] = str(Path(file).resolve())
    return described


def _lookup(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None) if found is None else getattr(found, part, None)
    return found
