"""What check="bounds" costs: kernels with and without checks in native code.

Exact, one thread, autoreset included; actions are random and change at every step. Both are measured in one run,
interleaved, by the processor's time. Prints tables and writes benchmarks/results/native_checks.json.

Run: python benchmarks/native_checks.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import vecenv
from arrays import NAMES
from racing import Contestant, Question, answer, race
from vecenv.kernel import kernel_of

PLANS = 64
COUNT = 4096
IDS = ("CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "Taxi-v3", "Blackjack-v1")
GAMES = ("FourRooms-v0", "Snake-v0", "Breakout-v0")
ARRAYS = (*NAMES, "tetris_loops")
"""Modules of benchmarks/arrays."""


def definition(name: str) -> Any:
    """The kernel of a module, or an id as it is."""
    if name in IDS or name in GAMES:
        return "Taxi-v4" if name == "Taxi-v3" and name not in gymnasium.registry else name
    module = importlib.import_module(f"arrays.{name}")
    return next(value for value in vars(module).values() if kernel_of(value) is not None)


def contestant(name: str, title: str, **options: Any) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make(definition(name), COUNT, engine="compiled", workers=1, copy=False, **options)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = [np.asarray(envs.action_space.sample()) for _ in range(PLANS)]
        return lambda turn: envs.step(actions[turn % PLANS]), envs.close

    return Contestant(title, build)


def costs(name: str) -> Callable[[int, float], dict[str, float]]:
    """Steps per second with checks and without."""
    contestants = [contestant(name, "checked", check="bounds"), contestant(name, "unchecked")]
    return lambda turns, seconds: race(contestants, COUNT, 5 * turns, seconds / 5, time.process_time, together=8)


if __name__ == "__main__":
    answer(
        __doc__,
        {name: Question(f"{COUNT:,} {name}", "unchecked", costs(name)) for name in (*IDS, *GAMES, *ARRAYS)},
        Path(__file__).parent / "results" / "native_checks.json",
    )
