"""What looking for NaN and infinity costs: check_finite="off", the default (rewards), and "error" (observations too).

Everything that is compared is measured in one run, interleaved. Prints tables and writes
benchmarks/results/checks.json.

Run: python benchmarks/checks.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import vecenv
from racing import Contestant, Question, answer, race

POLICIES: dict[str, Any] = {"off": "off", "default": None, "error": "error", "truncate": "truncate"}


def checked(name: str, policy: Any, count: int, **options: Any) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make("CartPole-v1", count, check_finite=policy, **options)
        envs.reset(seed=0)
        actions = np.random.default_rng(0).integers(0, 2, (64, count))
        return lambda turn: envs.step(actions[turn % 64]), envs.close

    return Contestant(name, build)


def costs(count: int, **options: Any) -> Callable[[int, float], dict[str, float]]:
    """Steps per second under each policy."""
    contestants = [checked(name, policy, count, **options) for name, policy in POLICIES.items()]
    return lambda turns, seconds: race(contestants, count, turns, seconds)


def look(turns: int, seconds: float) -> dict[str, float]:
    """Microseconds of one look at the results of an exchange, best of `turns`."""
    found = {}
    for count in (64, 1024):
        for name in ("default", "error"):
            envs = vecenv.make("CartPole-v1", count, engine="compiled", check_finite=POLICIES[name])
            envs.reset(seed=0)
            rows = np.arange(count)
            suspects = envs._decorated.suspects
            measure = timeit.Timer(lambda look=suspects, rows=rows: look(rows))
            best = min(measure.repeat(repeat=max(10, int(turns * seconds * 100)), number=300))
            found[f"{count} CartPoles, {name}"] = best / 300 * 1e6
            envs.close()
    return found


if __name__ == "__main__":
    answer(
        __doc__,
        {
            "look": Question("microseconds per look", None, look),
            "process": Question("64 CartPole-v1 in 2 processes", "off", costs(64, engine="process", workers=2)),
            "sync": Question("64 CartPole-v1, sync", "off", costs(64, engine="sync")),
            "compiled": Question("1,024 CartPole-v1, compiled", "off", costs(1024, engine="compiled")),
        },
        Path(__file__).parent / "results" / "checks.json",
    )
