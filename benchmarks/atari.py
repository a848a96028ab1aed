"""Speed of native Atari games next to bare ale-py and EnvPool: Pong, 16 at once, the same preprocessing.

Everything is measured in one run: the contestants of a table take turns, several times, and the best turn of each
counts, because machines are noisy. Ratios are what matters. Prints tables and writes benchmarks/results/atari.json.
Wanted: at least 1.05 times EnvPool and 0.98 times bare ale-py, and first-ready batches at least as fast as theirs.

Run: python benchmarks/atari.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import envpool
import numpy as np
from ale_py import AtariVectorEnv

import vecenv
from racing import Contestant, Question, answer, race
from vecenv._util.cpus import usable_cpus

COUNT, HALF = 16, 8
SHORT = 100
"""Frames of an episode where steps are to be uneven: a reset takes as long as several of them."""
ACTIONS = np.random.default_rng(0).integers(0, 6, (64, COUNT))
MIXED = ["ALE/Pong-v5", "ALE/MontezumaRevenge-v5", "ALE/Qbert-v5", "ALE/SpaceInvaders-v5"] * 4
Build = Callable[[], tuple[Callable[[int], Any], Callable[[], None]]]


def ours(batch_size: int | None = None, frames: int = 108_000, engine: str = "ale", workers: int | None = None) -> Any:
    return vecenv.make(
        "ALE/Pong-v5",
        COUNT,
        engine=engine,  # type: ignore[arg-type]  # checked there
        preprocessing={"stack_padding": "zero"},
        batch_size=batch_size,
        workers=workers,
        repeat_action_probability=0.0,
        max_num_frames_per_episode=frames,
    )


def bare(batch_size: int = 0, frames: int = 108_000) -> Any:
    return AtariVectorEnv(
        "pong",
        COUNT,
        batch_size=batch_size,
        num_threads=usable_cpus(),
        reward_clipping=False,
        use_fire_reset=False,
        max_num_frames_per_episode=frames,
    )


def pooled(batch_size: int = COUNT, frames: int = 108_000) -> Any:
    return envpool.make_gymnasium(
        "Pong-v5",
        num_envs=COUNT,
        batch_size=batch_size,
        num_threads=usable_cpus(),
        use_fire_reset=False,
        repeat_action_probability=0.0,
        max_episode_steps=frames // 4,
    )


def stepping(make: Callable[[], Any]) -> Build:
    """All envs at once."""

    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = make()
        envs.reset()
        return lambda number: envs.step(ACTIONS[number % len(ACTIONS)]), envs.close

    return build


def our_batches(make: Callable[[], Any]) -> Build:
    """Those that are ready first: receive HALF, send HALF."""

    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = make()
        envs.reset(seed=0)
        envs.send(ACTIONS[0])

        def exchange(number: int) -> None:
            step = envs.recv(HALF)
            envs.send(ACTIONS[number % len(ACTIONS), :HALF], step.env_ids)

        return exchange, envs.close

    return build


def bare_batches(frames: int) -> tuple[Callable[[int], Any], Callable[[], None]]:
    """ale-py sends to those of the last `recv`, so its first results must be received one batch at a time."""
    envs = bare(HALF, frames)
    envs.reset(seed=0)

    def exchange(number: int) -> None:
        envs.send(ACTIONS[number % len(ACTIONS), :HALF])
        envs.recv()

    return exchange, envs.close


def pooled_batches(frames: int) -> tuple[Callable[[int], Any], Callable[[], None]]:
    envs = pooled(HALF, frames)
    envs.async_reset()

    def exchange(number: int) -> None:
        info = envs.recv()[-1]
        envs.send(ACTIONS[number % len(ACTIONS), :HALF], info["env_id"])

    return exchange, envs.close


def pong(turns: int, seconds: float) -> dict[str, float]:
    contestants = [
        Contestant("bare ale-py", stepping(bare)),
        Contestant("EnvPool", stepping(pooled)),
        Contestant("vecenv", stepping(ours)),
        Contestant("vecenv, a pool of workers", stepping(partial(ours, workers=usable_cpus()))),
        Contestant("vecenv, process", stepping(partial(ours, engine="process"))),
    ]
    return race(contestants, COUNT, turns, seconds)


def first_ready(turns: int, seconds: float) -> dict[str, float]:
    contestants = [
        Contestant("bare ale-py", partial(bare_batches, SHORT)),
        Contestant("EnvPool", partial(pooled_batches, SHORT)),
        Contestant("vecenv", our_batches(partial(ours, HALF, SHORT))),
    ]
    return race(contestants, HALF, turns, seconds)


def mixed(turns: int, seconds: float) -> dict[str, float]:
    make = partial(vecenv.make, MIXED, preprocessing=True)
    contestants = [
        Contestant("vecenv, all at once", stepping(make)),
        Contestant("vecenv, first ready", our_batches(make)),
    ]
    rates = race(contestants, 1, turns, seconds)
    return {
        "vecenv, all at once": COUNT * rates["vecenv, all at once"],
        "vecenv, first ready": HALF * rates["vecenv, first ready"],
    }


QUESTIONS = {
    "pong": Question("Pong, 16 at once", "bare ale-py", pong),
    "first-ready": Question("Pong, the first 8 of 16, uneven steps", "bare ale-py", first_ready),
    "mixed": Question("four games, 16 at once and the first 8 of 16", "vecenv, all at once", mixed),
}

if __name__ == "__main__":
    answer(__doc__, QUESTIONS, Path(__file__).parent / "results" / "atari.json")
