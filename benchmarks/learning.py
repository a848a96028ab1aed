"""Train with the presets and write docs/results.md from the runs that were made.

    python benchmarks/learning.py CartPole-v1 Taxi-v3      # these, as `vecenv train` would
    python benchmarks/learning.py Pendulum-v1:ppo --seeds 3
    python benchmarks/learning.py                           # no training: write the page again

Every run is kept in benchmarks/learning.json; a run of the same env, algorithm and seed replaces the old one.
Nothing in the page is typed by hand but the bars and the published figures below.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import vecenv
from vecenv.evaluation import bootstrap
from vecenv.evaluation._statistics import mean
from vecenv.presets import find_preset, presets_for
from vecenv.trainers import DQN, PPO, SAC

HERE = Path(__file__).parent
RUNS, PAGE = HERE / "learning.json", HERE.parent / "docs" / "results.md"
TRAINERS: dict[str, Any] = {"ppo": PPO, "sac": SAC, "dqn": DQN}
EVALUATION_SEEDS, EPISODES = 10, 10

BARS = {
    "CartPole-v1": 500, "Acrobot-v1": -90, "MountainCar-v0": -110, "Pendulum-v1": -170, "LunarLander-v3": 200,
    "Snake-v0": 15, "Taxi-v3": 7.5, "FrozenLake8x8-v1": 0.6,
}  # fmt: skip
"""The returns to reach."""
ZOO = {
    ("CartPole-v1", "ppo"): (500.0, "100k"), ("Acrobot-v1", "ppo"): (-73.5, "1M"),
    ("MountainCar-v0", "dqn"): (-100.8, "120k"),
    ("MountainCarContinuous-v0", "sac"): (94.7, "50k"), ("Pendulum-v1", "sac"): (-157.0, "20k"),
    ("Pendulum-v1", "ppo"): (-172.2, "100k"), ("LunarLander-v3", "ppo"): (242.1, "1M, v2"),
    ("HalfCheetah-v5", "ppo"): (5819.1, "1M, v3"), ("Hopper-v5", "ppo"): (2410.4, "1M, v3"),
    ("Walker2d-v5", "ppo"): (3478.8, "1M, v3"), ("Ant-v5", "ppo"): (1327.2, "1M, v3"),
    ("Swimmer-v5", "ppo"): (281.6, "1M, v3"), ("HalfCheetah-v5", "sac"): (9535.5, "1M, v3"),
    ("Hopper-v5", "sac"): (2325.5, "1M, v3"), ("Walker2d-v5", "sac"): (3863.2, "1M, v3"),
    ("Ant-v5", "sac"): (4615.8, "1M, v3"),
}  # fmt: skip
"""Mean return and steps of one run each, from benchmark.md of github.com/DLR-RM/rl-baselines3-zoo (commit 0088472)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", metavar="ENV[:ALGO]")
    parser.add_argument("--seeds", type=int, default=1, help="training runs per env: seeds 0, 1, ...")
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.envs:
        env_id, _, algo = name.partition(":")
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            keep(train(env_id, algo or next(iter(presets_for(env_id))), seed))
    PAGE.write_text(page(json.loads(RUNS.read_text()) if RUNS.exists() else []))


def train(env_id: str, algo: str, seed: int) -> dict[str, Any]:
    """One run with the preset, and its evaluation in episodes that it was not trained on."""
    preset = find_preset(algo, env_id)
    assert preset is not None, f"{env_id} has no preset of {algo}"
    trainer = TRAINERS[algo](env_id, seed=seed, device="cpu")
    began, cpu = time.perf_counter(), os.times()
    trainer.learn(preset.steps)
    seconds, after = time.perf_counter() - began, os.times()
    engine = trainer.collector.envs[0].unwrapped.engine.name
    trainer.close()
    found = vecenv.evaluate(trainer.policy, env_id, episodes=EPISODES, seeds=EVALUATION_SEEDS)
    run = {
        "env": env_id, "algo": algo, "steps": trainer.steps, "seed": seed, "engine": engine,
        "settings": trainer.config.as_data(), "seconds": round(seconds, 1),
        "cpu_seconds": round(sum(after[:4]) - sum(cpu[:4]), 1),
        "returns": [round(float(one), 4) for one in found.returns],
        "versions": {"vecenv": vecenv.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }  # fmt: skip
    print(f"{env_id} {algo} seed {seed}: {np.mean(run['returns']):.2f} after {trainer.steps:,} steps, {seconds:.0f} s")
    return run


def keep(run: dict[str, Any]) -> None:
    """Add a run to the file, in place of an older one with the same env, algorithm and seed."""
    runs = json.loads(RUNS.read_text()) if RUNS.exists() else []
    key = lambda one: (one["env"], one["algo"], one["seed"])  # noqa: E731  # used three times, here only
    runs = sorted([*(one for one in runs if key(one) != key(run)), run], key=key)
    RUNS.write_text("[\n" + ",\n".join(json.dumps(one) for one in runs) + "\n]\n")


_INTRODUCTION = """# Results

Written by `benchmarks/learning.py` from the runs in `benchmarks/learning.json`: each is what `vecenv train ID` does,
with the preset of that id (`vecenv list ID`). Returns are means of {episodes} episodes per run ({seeds} evaluation
seeds, none of them trained on) with the most probable actions; the 95 % interval is a bootstrap over all of them. [The
machine](benchmarks.md#the-machine) has two processors and was busy with other work: look at the seconds of CPU. One
torch thread did the learning. A result from one training seed says little about other seeds. "RL Zoo" is the figure
that [RL Baselines3 Zoo](https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md) has for the same
algorithm (one run, tuned settings), with its steps and, where it is another, its version of the env."""


def page(runs: list[dict[str, Any]]) -> str:
    """The page: a line for each env and algorithm."""
    lines = [
        *_INTRODUCTION.format(episodes=EVALUATION_SEEDS * EPISODES, seeds=EVALUATION_SEEDS).splitlines(),
        "",
        "| env | algorithm | steps | training seeds | return | 95 % interval | bar | CPU time | wall time | RL Zoo |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for env_id, algo in dict.fromkeys((one["env"], one["algo"]) for one in runs):
        lines.append(_line(env_id, algo, [one for one in runs if (one["env"], one["algo"]) == (env_id, algo)]))
    missing = sorted(set(BARS) - {one["env"] for one in runs})
    lines += ["", "Envs with a bar that have not been run yet: " + ", ".join(missing) + "." if missing else
              "Every env with a bar has been run.", ""]  # fmt: skip
    return "\n".join(lines)


def _line(env_id: str, algo: str, runs: list[dict[str, Any]]) -> str:
    returns = np.concatenate([one["returns"] for one in runs])
    low, high = bootstrap((returns,), mean)
    bar = BARS.get(env_id)
    met = "" if bar is None else f"{bar:g}, {'reached' if returns.mean() >= bar else 'missed'}"
    per_seed = "" if len(runs) == 1 else " (" + ", ".join(f"{np.mean(one['returns']):.2f}" for one in runs) + ")"
    cpu, wall = (np.mean([one[name] for one in runs]) for name in ("cpu_seconds", "seconds"))
    cells = (
        env_id, algo.upper(), f"{runs[0]['steps']:,}", str(len(runs)), f"{returns.mean():.2f}{per_seed}",
        f"{low:.2f} ... {high:.2f}", met, f"{cpu:.0f} s", f"{wall:.0f} s",
        "{:g} ({})".format(*ZOO[env_id, algo]) if (env_id, algo) in ZOO else "",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
