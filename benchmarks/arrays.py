"""Speed of kernels with arrays next to row loops that were written for Numba by hand.

Eight kernels in natural NumPy (benchmarks/arrays/<name>.py), and the same in loops over elements (<name>_loops.py),
race a straightforward Numba loop over one record per env (<name>_rows.py) with the same rules and the same bits, exact,
one thread, autoreset included. Actions are random and change at every step. "numba" and "no copies" hand out arrays
that a later step overwrites, the others fresh arrays at every step. The loop neither checks actions nor hands out
infos, except for action masks. Time is that of the processor. Prints tables and writes benchmarks/results/arrays.json.

Run: python benchmarks/arrays.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import functools
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
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of

PLANS = 64
COUNTS = (64, 4096)


def plan(space: gymnasium.Space[Any], count: int) -> list[np.ndarray]:
    """Batches of random actions."""
    batched = gymnasium.vector.utils.batch_space(space, count)
    batched.seed(0)
    return [np.asarray(batched.sample()) for _ in range(PLANS)]


def by_hand(name: str, count: int, copies: bool) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        loop = importlib.import_module(f"arrays.{name}_rows").LOOP
        envs, actions = loop.make(count), plan(loop.action_space, count)
        envs.reset(seed=0)
        if not copies:
            return lambda turn: envs.step(actions[turn % PLANS]), lambda: None

        def fresh(turn: int) -> Any:
            *results, info = envs.step(actions[turn % PLANS])
            return [result.copy() for result in results], {key: value.copy() for key, value in info.items()}

        return fresh, lambda: None

    return Contestant("numba, copies" if copies else "numba", build)


def ours(module: str, count: int, copies: bool) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make(definition(module), count, engine="compiled", workers=1, copy=copies)
        actions = plan(envs.single_action_space, count)
        envs.reset(seed=0)
        return lambda turn: envs.step(actions[turn % PLANS]), envs.close

    style = "loops" if module.endswith("_loops") else "natural"
    return Contestant(style if copies else f"{style}, no copies", build)


@functools.cache
def definition(module: str) -> type | None:
    """The kernel's class; None, with a message, if the language does not have what it uses."""
    try:
        found = vars(importlib.import_module(f"arrays.{module}")).values()
        kernel = next(filter(None, map(kernel_of, found)))
        assert kernel.names_checked
    except (KernelError, ImportError) as error:
        print(f"{module} is refused: {error}")
        return None
    return kernel.definition


def contest(name: str, count: int, turns: int, seconds: float) -> dict[str, float]:
    contestants = [by_hand(name, count, copies=False), by_hand(name, count, copies=True)]
    for module in (f"{name}_loops", name):
        if definition(module) is not None:
            contestants += [ours(module, count, copies=False), ours(module, count, copies=True)]
    return race(contestants, count, 5 * turns, seconds / 5, time.process_time, together=32)


def ratios(turns: int, seconds: float) -> dict[str, float]:
    """Our speed as a share of the hand-written loop's, like with like."""
    found = {}
    for name in NAMES:
        for count in COUNTS:
            speeds = contest(name, count, turns, seconds)
            for style in ("loops", "natural"):
                if style in speeds:
                    alike = speeds[f"{style}, no copies"] / speeds["numba"]
                    found[f"{name} {count:,}, {style}, no copies (x numba)"] = alike
                    found[f"{name} {count:,}, {style} (x numba)"] = speeds[style] / speeds["numba, copies"]
    return found


def question(name: str, count: int) -> Question:
    return Question(f"{count:,} {name}", "numba", lambda *turns: contest(name, count, *turns))


if __name__ == "__main__":
    answer(
        __doc__,
        {
            **{f"{name}{count}": question(name, count) for name in NAMES for count in COUNTS},
            "ratios": Question("x the hand-written row loop, one thread", None, ratios),
        },
        Path(__file__).parent / "results" / "arrays.json",
    )
