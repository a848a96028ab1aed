"""Speed of rollouts in Ray actors next to stepping the same actors in lockstep.

Two actors, each with compiled CartPoles; the policy is a product with four weights. "lockstep" steps through
engine="ray": every step, observations come here and actions go back. "rollout" ships the policy and brings fragments.
Prints a table and writes benchmarks/results/distributed.json.

Run: python benchmarks/distributed.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench,ray]')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import vecenv
from racing import Contestant, Question, answer, race
from vecenv.distributed import Rollouts

WORKERS, STEPS = 2, 32
WEIGHTS = np.array([0.1, 0.2, 1.0, 1.0], np.float32)
NUM_CPUS = 0.25
"""Of each actor, so that all contestants fit two processors at once; only one of them works at a time."""


def policy(obs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (obs @ weights > 0).astype(np.int64)


def lean(obs: Any) -> int:
    return 1 if 0.1 * obs[0] + 0.2 * obs[1] + obs[2] + obs[3] > 0 else 0


def lockstep(count: int) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make(
            "CartPole-v1", count, engine="ray", workers=WORKERS, num_cpus=NUM_CPUS, autoreset="same-step"
        )
        obs, _ = envs.reset(seed=0)

        def exchange(turn: int) -> None:
            nonlocal obs
            for _ in range(STEPS):
                obs, *_ = envs.step(policy(obs, WEIGHTS))

        return exchange, envs.close

    return Contestant("lockstep", build)


def rollouts(name: str, count: int, chosen: Callable[..., Any], weights: Any, **options: Any) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        where = {"workers": WORKERS, "num_cpus": NUM_CPUS, "autoreset": "same-step", "seed": 0}
        collector = Rollouts("CartPole-v1", count, chosen, **where, **options)

        def exchange(turn: int) -> None:
            for fragment in collector.collect(STEPS, weights):
                assert len(fragment.reward) == STEPS

        return exchange, collector.close

    return Contestant(name, build)


def compare(each: int, turns: int, seconds: float) -> dict[str, float]:
    count = WORKERS * each
    contestants = [
        lockstep(count),
        rollouts("rollout", count, policy, WEIGHTS),
        rollouts("rollout, native policy", count, lean, None, native=True),
    ]
    return race(contestants, count * STEPS, turns, seconds)


QUESTIONS = {
    str(each): Question(f"{WORKERS} actors of {each:,} CartPoles", "lockstep", partial(compare, each))
    for each in (64, 1024, 8192)
}

if __name__ == "__main__":
    answer(__doc__, QUESTIONS, Path(__file__).parent / "results" / "distributed.json")
