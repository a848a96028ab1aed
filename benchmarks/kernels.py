"""Speed of kernels next to EnvPool's C++ and Gymnasium's NumPy CartPole.

Autoreset is included, actions are random and change at every step, and every array that is handed out is a fresh one.
EnvPool runs with one thread, as we do unless a table says otherwise. Prints tables and writes
benchmarks/results/kernels.json.

Run: python benchmarks/kernels.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import vecenv
from racing import Contestant, Question, answer, race

PLANS = 64
CLASSIC = ("MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1")
TOY_TEXT = ("FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v3", "CliffWalking-v1", "Blackjack-v1")
GAMES = ("FourRooms-v0", "Snake-v0", "Breakout-v0")
THEIR_NAMES = {"CliffWalking-v1": "CliffWalking-v0"}


def plan(space: gymnasium.Space[Any], dtype: Any = None) -> list[np.ndarray]:
    """Batches of actions to go through, in the dtype that the contestant wants."""
    space.seed(0)
    return [np.asarray(space.sample()).astype(dtype or space.dtype) for _ in range(PLANS)]


def ours(name: str, id: str, count: int, **options: Any) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make(id, count, engine="compiled", **options)
        actions = plan(envs.action_space)
        envs.reset(seed=0)
        return lambda turn: envs.step(actions[turn % PLANS]), envs.close

    return Contestant(name, build)


def envpool(id: str, count: int) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import envpool as library

            pool = library.make_gymnasium(THEIR_NAMES.get(id, id), num_envs=count, num_threads=1)
        batched = gymnasium.vector.utils.batch_space(pool.action_space, count)
        actions = plan(batched, pool.action_space.dtype)
        pool.reset()
        return lambda turn: pool.step(actions[turn % PLANS]), lambda: None

    return Contestant("envpool", build)


def gymnasium_numpy(count: int) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")
        actions = plan(envs.action_space)
        envs.reset(seed=0)
        return lambda turn: envs.step(actions[turn % PLANS]), envs.close

    return Contestant("gymnasium numpy", build)


def cartpole(count: int, turns: int, seconds: float) -> dict[str, float]:
    return race(
        [
            envpool("CartPole-v1", count),
            gymnasium_numpy(count),
            ours("vecenv exact", "CartPole-v1", count, workers=1),
            ours("vecenv fast", "CartPole-v1", count, workers=1, precision="fast"),
            ours("vecenv fast, no copies", "CartPole-v1", count, workers=1, precision="fast", copy=False),
        ],
        count,
        turns,
        seconds,
    )


def threads(turns: int, seconds: float) -> dict[str, float]:
    count = 65_536
    return race(
        [
            ours("exact, 1 thread", "CartPole-v1", count, workers=1),
            ours("exact, 2 threads", "CartPole-v1", count, workers=2),
            ours("fast, 1 thread", "CartPole-v1", count, workers=1, precision="fast"),
            ours("fast, 2 threads", "CartPole-v1", count, workers=2, precision="fast"),
        ],
        count,
        turns,
        seconds,
    )


def others(turns: int, seconds: float) -> dict[str, float]:
    """How many times EnvPool's speed, 1,024 envs, one thread, exact."""
    found = {}
    for id in CLASSIC + TOY_TEXT:
        result = race([envpool(id, 1024), ours("vecenv", id, 1024, workers=1)], 1024, turns, seconds / 2)
        found[f"{id} (x envpool)"] = result["vecenv"] / result["envpool"]
        found[f"{id} (M steps/s)"] = result["vecenv"] / 1e6
    return found


def games(turns: int, seconds: float) -> dict[str, float]:
    """Million steps per second, 1,024 envs, one thread."""
    return {id: race([ours("vecenv", id, 1024, workers=1)], 1024, turns, seconds)["vecenv"] / 1e6 for id in GAMES}


def rollouts(turns: int, seconds: float) -> dict[str, float]:
    count, steps = 4096, 128

    def contestant(name: str, at_once: bool, **options: Any) -> Contestant:
        def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
            envs = vecenv.make("CartPole-v1", count, engine="compiled", **options)
            actions = np.stack([*plan(envs.action_space), *plan(envs.action_space)])
            envs.reset(seed=0)

            def one_by_one(turn: int) -> None:
                for batch in actions:
                    envs.step(batch)

            return (lambda turn: envs.rollout(actions)) if at_once else one_by_one, envs.close

        return Contestant(name, build)

    return race(
        [
            contestant("128 steps, exact", False, workers=1),
            contestant("one rollout, exact", True, workers=1),
            contestant("one rollout, exact, 2 threads", True, workers=2),
            contestant("128 steps, fast", False, workers=1, precision="fast"),
            contestant("one rollout, fast", True, workers=1, precision="fast"),
            contestant("one rollout, fast, 2 threads", True, workers=2, precision="fast"),
        ],
        count * steps,
        turns,
        seconds,
    )


def scaling(turns: int, seconds: float) -> dict[str, float]:
    """Nanoseconds per env and step, one thread, and bytes per env."""
    found = {}
    for count in (1024, 4096, 16_384, 65_536, 262_144, 1_048_576):
        for precision in ("exact", "fast"):
            one = race([ours("vecenv", "CartPole-v1", count, workers=1, precision=precision)], count, turns, seconds)
            found[f"{count:>9,} envs, {precision} (ns)"] = 1e9 / one["vecenv"]
    envs = vecenv.make("CartPole-v1", 4096, engine="compiled", workers=1)
    found["memory per env (bytes)"] = envs.engine.memory / 4096
    envs.close()
    return found


_START = """
import resource, sys, time, gymnasium, vecenv
usage = lambda: sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
                    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
started, used = time.perf_counter(), usage()
envs = vecenv.make(sys.argv[1], 64)
envs.reset(seed=0)
envs.step(envs.action_space.sample())
print(time.perf_counter() - started, usage() - used)
"""
LARGEST = "MinAtar/Seaquest-v0"


def start() -> dict[str, float]:
    """Seconds from `make` to the end of the first step, beyond imports, in fresh processes; best of three.

    Packages have their bytecode, as after an installation: the first process writes it.
    """
    found: dict[str, list[float]] = {}
    kept = tempfile.TemporaryDirectory()
    general = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for id in ("CartPole-v1", LARGEST):
        for _ in range(3):
            with tempfile.TemporaryDirectory() as directory:
                environment = {**general, "PYTHONPYCACHEPREFIX": kept.name, "VECENV_CACHE_DIR": directory}
                for what in ("cold", "cached"):
                    line = subprocess.check_output(
                        [sys.executable, "-W", "ignore", "-c", _START, id], env=environment, text=True
                    )
                    for unit, seconds in zip(("s", "CPU s"), map(float, line.split()), strict=True):
                        found.setdefault(f"{id}, {what} ({unit})", []).append(seconds)
    kept.cleanup()
    return {name: min(seconds) for name, seconds in found.items()}


if __name__ == "__main__":
    answer(
        __doc__,
        {
            "cartpole1": Question("1 CartPole-v1", "envpool", lambda *turns: cartpole(1, *turns)),
            "cartpole64": Question("64 CartPole-v1", "envpool", lambda *turns: cartpole(64, *turns)),
            "cartpole4096": Question("4,096 CartPole-v1", "envpool", lambda *turns: cartpole(4096, *turns)),
            "threads": Question("65,536 CartPole-v1", "exact, 1 thread", threads),
            "others": Question("1,024 envs, exact, one thread", None, others),
            "games": Question("1,024 envs, one thread, million steps/s", None, games),
            "rollout": Question("4,096 CartPole-v1, 128 steps", "128 steps, exact", rollouts),
            "scaling": Question("CartPole-v1, one thread", None, scaling),
            "start": Question("64 envs, make to first step", None, lambda *turns: start()),
        },
        Path(__file__).parent / "results" / "kernels.json",
    )
