"""The contestants of a benchmark: vecenv's engines, and other libraries where they are installed."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from vecenv.cli._sources import EnvSource
from vecenv.engines import Compiled, registry

PROCESSES = 64
"""Limit of the number of processes: other libraries start one per env."""
Exchange = Callable[[int], object]
Running = tuple[Exchange, Callable[[], object]]
"""A function that steps all envs, given a number that counts up, and a function that closes them."""


@dataclass(frozen=True)
class Contestant:
    """A way to run envs.

    Attributes:
        name: name in the table.
        build: function from the source and a number of envs to running envs.
        most: largest number of envs it is measured with.
    """

    name: str
    build: Callable[[EnvSource, int], Running]
    most: int = 1 << 20


def contestants(source: EnvSource) -> tuple[list[Contestant], dict[str, str]]:
    """The contestants that can run this env, and the reasons why others cannot."""
    found, missing = [], {}
    for kind in registry.classes():
        unfit = source.refusal(kind.name) if kind.automatic else f"for {kind.use_for}"
        if unfit is not None:
            missing[f"vecenv {kind.name}"] = unfit.partition(";")[0]
            continue
        variants = {f"vecenv {kind.name}": kind()}
        if kind is Compiled:
            variants[f"vecenv {kind.name}, fast"] = Compiled(precision="fast")
        found += [Contestant(name, functools.partial(_ours, engine=engine)) for name, engine in variants.items()]
    found += [Contestant("gymnasium sync", _gymnasium_sync), Contestant("gymnasium async", _gymnasium_async, PROCESSES)]
    others = {
        "stable_baselines3": [Contestant("SB3 Dummy", _sb3_dummy), Contestant("SB3 Subproc", _sb3_subproc, PROCESSES)],
        "envpool": [Contestant("EnvPool", _envpool)],
        "pufferlib": [Contestant("PufferLib serial", _pufferlib)],
    }
    for module, theirs in others.items():
        reason = _reason(module, source)
        if reason is None:
            found += theirs
        else:
            missing |= {one.name: reason for one in theirs}
    return found, missing


def _reason(module: str, source: EnvSource) -> str | None:
    """Why a library cannot run this env, None if it can."""
    if importlib.util.find_spec(module) is None:
        return "not installed"
    if module == "envpool":
        if source.id is None:
            return "has only its own envs"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                import envpool  # pyright: ignore[reportMissingImports]  # optional
            except Exception as error:  # installed, but something that it needs is not
                return f"cannot be imported: {error!s:.60}"
            if source.id not in envpool.list_all_envs():
                return f"has no {source.id}"
    return None


def _factory(source: EnvSource) -> Callable[[], Any]:
    """One Python env."""
    from vecenv._make.source import find_build
    from vecenv.engines.python.factories import factories

    return factories(find_build(source.env)[1], 1, source.kwargs or None)[0][0]


def _actions(space: gymnasium.Space[Any], count: int) -> list[Any]:
    """Batches of random actions, the same for all contestants."""
    batched = gymnasium.vector.utils.batch_space(space, count)
    batched.seed(0)
    return [batched.sample() for _ in range(16)]


def _stepping(envs: Any, space: gymnasium.Space[Any], count: int) -> Running:
    actions = _actions(space, count)
    return lambda turn: envs.step(actions[turn % len(actions)]), envs.close


def _ours(source: EnvSource, count: int, **options: Any) -> Running:
    envs = source.make(count, **options)
    envs.reset(seed=0)
    return _stepping(envs, envs.single_action_space, count)


def _gymnasium_sync(source: EnvSource, count: int) -> Running:
    envs = gymnasium.vector.SyncVectorEnv([_factory(source)] * count)
    envs.reset(seed=0)
    return _stepping(envs, envs.single_action_space, count)


def _gymnasium_async(source: EnvSource, count: int) -> Running:
    envs = gymnasium.vector.AsyncVectorEnv([_factory(source)] * count)
    envs.reset(seed=0)
    return _stepping(envs, envs.single_action_space, count)


def _sb3(envs: Any, count: int) -> Running:
    envs.seed(0)
    envs.reset()
    actions = _actions(envs.action_space, count)
    return lambda turn: envs.step(actions[turn % len(actions)]), envs.close


def _sb3_dummy(source: EnvSource, count: int) -> Running:
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]  # optional

    return _sb3(DummyVecEnv([_factory(source)] * count), count)


def _sb3_subproc(source: EnvSource, count: int) -> Running:
    from stable_baselines3.common.vec_env import SubprocVecEnv  # pyright: ignore[reportMissingImports]  # optional

    return _sb3(SubprocVecEnv([_factory(source)] * count), count)


def _envpool(source: EnvSource, count: int) -> Running:
    import envpool  # pyright: ignore[reportMissingImports]  # optional

    envs: Any = envpool.make_gymnasium(str(source.id), num_envs=count, seed=0)
    envs.reset()
    actions = [np.asarray(action) for action in _actions(envs.action_space, count)]
    return lambda turn: envs.step(actions[turn % len(actions)]), envs.close


def _pufferlib(source: EnvSource, count: int) -> Running:
    import pufferlib.emulation  # pyright: ignore[reportMissingImports]  # optional
    import pufferlib.vector  # pyright: ignore[reportMissingImports]  # optional

    factory = _factory(source)

    def make(buf: Any = None, seed: int = 0) -> Any:
        return pufferlib.emulation.GymnasiumPufferEnv(env_creator=factory, buf=buf, seed=seed)

    envs: Any = pufferlib.vector.make(make, backend=pufferlib.vector.Serial, num_envs=count)
    envs.reset()
    return _stepping(envs, envs.single_action_space, count)
