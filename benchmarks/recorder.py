"""What the recorder costs: steps per second with and without `record="last-episode"`.

Everything that is compared is measured in one run, interleaved. Prints tables and writes
benchmarks/results/recorder.json.

Run: python benchmarks/recorder.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import vecenv
from racing import Contestant, Question, answer, race

SIZES = {"process": 64, "compiled": 1024}


def contestant(name: str, engine: str, count: int, autoreset: str, **options: Any) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = vecenv.make("CartPole-v1", count, engine=engine, workers=2, autoreset=autoreset, **options)
        envs.reset(seed=0)
        actions = np.random.default_rng(0).integers(0, 2, (128, count))
        return lambda turn: envs.step(actions[turn % 128]), envs.close

    return Contestant(name, build)


def compare(engine: str, autoreset: str) -> Callable[[int, float], dict[str, float]]:
    def run(turns: int, seconds: float) -> dict[str, float]:
        count = SIZES[engine]
        with tempfile.TemporaryDirectory() as folder:
            recorded = {"record": "last-episode", "record_folder": folder}
            contestants = [
                contestant("plain", engine, count, autoreset),
                contestant("recorded", engine, count, autoreset, **recorded),
            ]
            return race(contestants, count, turns, seconds)

    return run


if __name__ == "__main__":
    questions = {
        f"{engine}-{mode}": Question(f"{count} CartPole-v1, {engine}, {mode}", "plain", compare(engine, mode))
        for engine, count in SIZES.items()
        for mode in ("next-step", "same-step")
    }
    answer(__doc__, questions, Path(__file__).parent / "results" / "recorder.json")
