"""Speed of simulators at native speed, next to EnvPool and Gymnasium.

Everything is measured in one run: the contestants of a table take turns, several times, and the best turn of each
counts, because machines are noisy. Ratios are what matters. Prints tables and writes benchmarks/results/native.json.

Run: python benchmarks/native.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import envpool
import gymnasium
import numpy as np

import vecenv
from atari import QUESTIONS as ATARI
from racing import Contestant, Question, answer, race

CPUS = min(2, os.cpu_count() or 1)

# --- MuJoCo ----------------------------------------------------------------------------------------------------------

TASKS = ("HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Hopper-v5")
COUNTS = (32, 256)


def plan(id: str, count: int) -> np.ndarray:
    """A few batches of random actions."""
    space = gymnasium.make(id).action_space
    shape = (31, count, *(space.shape or ()))
    return np.random.default_rng(0).uniform(space.low, space.high, shape).astype(space.dtype)  # type: ignore[attr-defined]


def stepping(name: str, id: str, count: int, make: Callable[[], Any]) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs, actions = make(), plan(id, count)
        envs.reset()
        return lambda turn: envs.step(actions[turn % len(actions)]), envs.close

    return Contestant(name, build)


def ours(id: str, count: int, name: str = "vecenv", **options: Any) -> Contestant:
    return stepping(name, id, count, lambda: vecenv.make(id, count, engine="mujoco", workers=CPUS, **options))


def mujoco(id: str, count: int, turns: int, seconds: float) -> dict[str, float]:
    """Steps per second."""

    def pool() -> Any:
        return envpool.make_gymnasium(id, num_envs=count, num_threads=CPUS)

    def sync() -> Any:
        return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id)] * count)

    return race(
        [
            ours(id, count),
            ours(id, count, "vecenv, copy=False", copy=False),
            stepping("envpool", id, count, pool),
            stepping("gymnasium", id, count, sync),
        ],
        count,
        turns,
        seconds,
    )


def simulating(turns: int, seconds: float) -> dict[str, float]:
    """The share of time inside `mj_step`: what is left out when it is replaced by a function that does nothing.

    Envs that never move end no episodes, so resets of the others count as time inside it.
    """
    found = {}
    for id in TASKS:
        for count in COUNTS:
            rates = race([ours(id, count), _idle(id, count)], count, turns, seconds)
            found[f"{count} {id} (%)"] = 100 * (1 - rates["vecenv"] / rates["without mj_step"])
    return found


def _idle(id: str, count: int) -> Contestant:
    def make() -> Any:
        import mujoco

        envs: Any = vecenv.make(id, count, engine="mujoco", workers=CPUS)
        envs.reset(seed=0)
        library = next(Path(mujoco.__file__).parent.glob("libmujoco*.so*"))
        nothing = ctypes.cast(ctypes.CDLL(str(library)).mj_version, ctypes.c_void_p).value
        for simulator in envs.engine._simulators:
            simulator.words[0] = nothing
        return envs

    return stepping("without mj_step", id, count, make)


_MAKE = """
import gc, sys, time, psutil, numpy, gymnasium
{imports}
memory, results = psutil.Process().memory_info, []
for _ in range(2):
    gc.collect()
    before, started = memory().rss, time.perf_counter()
    envs = {make}
    results.append(time.perf_counter() - started)
    envs.reset()
    results.append(memory().rss - before)
    kept = envs
print(*results)
"""
"""The first time a process makes envs it also loads libraries; the second time it does not."""
_MAKERS = {
    "vecenv": ("import vecenv, mujoco", "vecenv.make('Ant-v5', {count}, engine='mujoco', workers={cpus})"),
    "envpool": ("import envpool", "envpool.make_gymnasium('Ant-v5', num_envs={count}, num_threads={cpus})"),
}


def making(count: int, turns: int) -> dict[str, float]:
    """Seconds and memory of many Ants, in fresh processes; our code comes from the cache."""
    best: dict[str, list[float]] = {}
    for _ in range(1 + turns):
        for name, (imports, make) in _MAKERS.items():
            text = _MAKE.format(imports=imports, make=make.format(count=count, cpus=CPUS))
            answer = subprocess.check_output([sys.executable, "-W", "ignore", "-c", text], text=True)
            values = list(map(float, answer.splitlines()[-1].split()))
            best[name] = list(map(min, values, best.get(name, values)))
    found = {}
    measured = (("first, s", 1.0), ("first, MB", 1e-6), ("second, s", 1.0), ("second, MB", 1e-6))
    for place, (what, scale) in enumerate(measured):
        for name, values in best.items():
            found[f"{name}: {what}"] = values[place] * scale
        found[f"envpool / vecenv: {what.partition(',')[0]}, {'time' if scale == 1.0 else 'memory'}"] = (
            best["envpool"][place] / best["vecenv"][place]
        )
    return found


def mujoco_question(id: str, count: int) -> Question:
    return Question(f"{count} {id}, {CPUS} threads", "envpool", lambda *turns: mujoco(id, count, *turns))


MUJOCO = {
    **{f"{id.partition('-')[0].lower()}{count}": mujoco_question(id, count) for id in TASKS for count in COUNTS},
    "mj_step": Question("share of time inside mj_step", None, simulating),
    "ants": Question("256 Ant-v5", None, lambda turns, seconds: making(256, min(turns, 3))),
}

# --- MiniGrid --------------------------------------------------------------------------------------------------------

GRIDS = ("MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-FourRooms-v0", "MiniGrid-LavaGapS7-v0")
GRID_COUNTS = (64, 4096)


def grids(id: str, count: int, turns: int, seconds: float) -> dict[str, float]:
    """Steps per second of MiniGrid's tasks, which are kernels here; EnvPool's observations hold the same numbers."""
    actions = np.random.default_rng(0).integers(0, 7, (31, count))

    def moving(name: str, make: Callable[[], Any]) -> Contestant:
        def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
            envs = make()
            own = actions.astype(envs.action_space.dtype)
            envs.reset()
            return lambda turn: envs.step(own[turn % len(own)]), envs.close

        return Contestant(name, build)

    return race(
        [
            moving("vecenv", lambda: vecenv.make(id, count, workers=CPUS)),
            moving("vecenv, copy=False", lambda: vecenv.make(id, count, workers=CPUS, copy=False)),
            moving("envpool", lambda: envpool.make_gymnasium(id, num_envs=count, num_threads=CPUS)),
        ],
        count,
        turns,
        seconds,
    )


def grid_question(id: str, count: int) -> Question:
    return Question(f"{count} {id}, {CPUS} threads", "envpool", lambda *turns: grids(id, count, *turns))


MINIGRID = {f"{id.split('-')[1].lower()}{count}": grid_question(id, count) for id in GRIDS for count in GRID_COUNTS}

if __name__ == "__main__":
    answer(__doc__, {**MUJOCO, **MINIGRID, **ATARI}, Path(__file__).parent / "results" / "native.json")
