"""The contestants of a benchmark: vecenv's engines, and other libraries where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium

from vecenv._batch.layout import map_tree
from vecenv.agents import MultiAgentVectorEnv
from vecenv.cli._sources import EnvSource
from vecenv.engines import Compiled, Device, registry

PROCESSES = 64
"""Limit of the number of processes: other libraries start one per env."""
Exchange = Callable[[int], object]
Running = tuple[Exchange, Callable[[], object], Callable[[], object]]
"""A function that steps all envs, given a number that counts up, one that closes them, and one that waits for steps."""


@dataclass(frozen=True)
class Contestant:
    """A way to run envs."""

    name: str
    build: Callable[[EnvSource, int], Running]
    """From the source and a number of envs."""
    most: int = 1 << 20
    """Largest number of envs it is measured with."""


def on_device(device: str) -> tuple[list[Contestant], dict[str, str]]:
    """Kernels on a device, in both precisions, and the compiled engine beside them."""
    found = [
        Contestant(f"vecenv device {device}, {precision}", partial(_device, device=device, precision=precision))
        for precision in ("exact", "fast")
    ]
    return [*found, Contestant("vecenv compiled", partial(ours, engine=Compiled()))], {}


def _device(source: EnvSource, count: int, device: str, precision: Any) -> Running:
    """Steps with a few batches of random actions that are on the device; it is waited for every 64 steps and last."""
    import torch

    envs: Any = source.make(count, engine=Device(device=device, precision=precision), autoreset="same-step")
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [
        map_tree(lambda leaf: torch.as_tensor(leaf, device=envs.device), envs.action_space.sample()) for _ in range(8)
    ]

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize(envs.device)

    def exchange(number: int) -> object:
        if number % 64 == 63:
            wait()
        return envs.step(actions[number % len(actions)])

    return exchange, envs.close, wait


def contestants(source: EnvSource) -> tuple[list[Contestant], dict[str, str]]:
    """The contestants that can run this env, and the reasons why others cannot."""
    found, missing = [], {}
    for kind in registry.classes():
        unfit = source.refusal(kind.name) if kind.automatic else f"for {kind.use_for}"
        if unfit is not None:
            missing[f"vecenv {kind.name}"] = unfit.partition(";")[0]
            continue
        variants = {f"vecenv {kind.name}": Device(results="numpy") if kind is Device else kind()}
        if kind is Compiled:
            variants[f"vecenv {kind.name}, fast"] = Compiled(precision="fast")
        found += [Contestant(name, partial(ours, engine=engine)) for name, engine in variants.items()]
    found += [
        Contestant("gymnasium sync", partial(_gymnasium, kind=gymnasium.vector.SyncVectorEnv)),
        Contestant("gymnasium async", partial(_gymnasium, kind=gymnasium.vector.AsyncVectorEnv), PROCESSES),
    ]
    others = {
        "stable_baselines3": [
            Contestant("SB3 Dummy", partial(_sb3, kind="DummyVecEnv")),
            Contestant("SB3 Subproc", partial(_sb3, kind="SubprocVecEnv"), PROCESSES),
        ],
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
                envpool: Any = importlib.import_module("envpool")  # not ours, which has the same name
            except Exception as error:  # installed, but something that it needs is not
                return f"cannot be imported: {error!s:.60}"
            if source.id not in envpool.list_all_envs():
                return f"has no {source.id}"
    return None


def measure(exchange: Exchange, seconds: float, wait: Callable[[], object]) -> float:
    """Steps of the vector env per second, by the time when the last one is done."""
    exchange(0)
    wait()
    started, exchanges = time.perf_counter(), 0
    while time.perf_counter() - started < seconds or not exchanges:
        exchange(exchanges)
        exchanges += 1
    wait()
    return exchanges / (time.perf_counter() - started)


def _stepping(envs: Any, space: gymnasium.Space[Any], count: int) -> Running:
    """Step with batches of random actions, the same for all contestants."""
    batched = gymnasium.vector.utils.batch_space(space, count)
    batched.seed(0)
    actions = [batched.sample() for _ in range(16)]
    return lambda turn: envs.step(actions[turn % len(actions)]), envs.close, lambda: None


def ours(source: EnvSource, count: int, **options: Any) -> Running:
    """Envs of `vecenv.make`."""
    envs = source.make(count, **options)
    envs.reset(seed=0)
    rows = envs.rows if isinstance(envs, MultiAgentVectorEnv) else envs
    return _stepping(envs, rows.single_action_space, count)


def _gymnasium(source: EnvSource, count: int, kind: Any) -> Running:
    envs = kind([source.factory()] * count)
    envs.reset(seed=0)
    return _stepping(envs, envs.single_action_space, count)


def _sb3(source: EnvSource, count: int, kind: str) -> Running:
    from stable_baselines3.common import vec_env  # pyright: ignore[reportMissingImports]  # optional

    envs = getattr(vec_env, kind)([source.factory()] * count)
    envs.seed(0)
    envs.reset()
    return _stepping(envs, envs.action_space, count)


def _envpool(source: EnvSource, count: int) -> Running:
    envpool: Any = importlib.import_module("envpool")  # not ours, which has the same name

    envs: Any = envpool.make_gymnasium(str(source.id), num_envs=count, seed=0)
    envs.reset()
    return _stepping(envs, envs.action_space, count)


def _pufferlib(source: EnvSource, count: int) -> Running:
    import pufferlib.emulation  # pyright: ignore[reportMissingImports]  # optional
    import pufferlib.vector  # pyright: ignore[reportMissingImports]  # optional

    def make(buf: Any = None, seed: int = 0) -> Any:
        return pufferlib.emulation.GymnasiumPufferEnv(env_creator=source.factory(), buf=buf, seed=seed)

    envs: Any = pufferlib.vector.make(make, backend=pufferlib.vector.Serial, num_envs=count)
    envs.reset()
    return _stepping(envs, envs.single_action_space, count)
