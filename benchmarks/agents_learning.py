"""PPO with a shared policy on simple_spread and on PettingZoo's pursuit, next to figures that others published.

`SimpleSpread-v0` has the observations and rewards of mpe2's simple_spread_v3, bit for bit, and `SislPursuit-v0` (see
sisl_pursuit.py) those of PettingZoo's pursuit_v5. Figures are of evaluations in episodes that were not trained on: of
spread with the most probable actions, of pursuit with sampled ones. With --untrained, the same episodes are run with
random actions and with agents that stand still. With --policy, a policy that was trained is evaluated in PettingZoo's
own env. The result is written to benchmarks/agents_learning.json.

Run: python benchmarks/agents_learning.py spread [--steps 3000000] [--central] [--seed 0]     (needs torch)
     python benchmarks/agents_learning.py spread --untrained --episodes 100
     python benchmarks/agents_learning.py pursuit --steps 6400000 --episodes 20 --save pursuit.npz
     python benchmarks/agents_learning.py pursuit --policy pursuit.npz --episodes 10     (needs pettingzoo[sisl])
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import vecenv
from benchmarks import sisl_pursuit  # noqa: F401  (defines SislPursuit-v0)
from vecenv.trainers import PPO, PPOConfig

RESULT = Path(__file__).parent / "agents_learning.json"
TASKS: dict[str, dict[str, Any]] = {
    "spread": {
        "env": "SimpleSpread-v0",
        "agents": 3,
        "stay": 0,
        "envs": 128,
        "options": {},
        "config": {"rollout_steps": 25, "minibatch": 2400, "epochs": 10, "learning_rate": 1e-3, "entropy": 0.01,
                   "lam": 0.95, "hidden": (64, 64), "anneal": True},
        "published": [
            "MADDPG, about 3,000,000 steps: -25 for each agent; MAD4PG: -20 (github.com/instadeepai/Mava/issues/315)",
            "MAPPO: -70 for the three agents together (github.com/Farama-Foundation/PettingZoo/issues/1304)",
        ],
    },
    "pursuit": {
        "env": "SislPursuit-v0",
        "theirs": "pettingzoo:sisl.pursuit_v5",
        "agents": 8,
        "stay": 4,
        "envs": 32,
        "options": {"deterministic": False},
        "training": {"shared_reward": False},  # the sum of all agents' rewards is the same
        "config": {"rollout_steps": 64, "minibatch": 1024, "epochs": 3, "learning_rate": 7e-4, "entropy": 0.01,
                   "gamma": 0.99, "lam": 0.95, "hidden": (128, 128), "activation": "relu", "anneal": True,
                   "normalize_reward": True},
        "published": [
            "best reward of a baseline of FLAIRS 2024 (arXiv:2404.05840): 633.6 for the eight agents, as "
            "github.com/UchennaNjoku/reinforcement-learning-exploration (possible_extensions) cites it",
            "IPPO of EPyMARL, as expected there: 200 to 400 at 1,000,000 env steps, 550 to 650 at 5,000,000",
            "two rollouts of trained agents: 84 and 82 for each (github.com/Farama-Foundation/PettingZoo/issues/583)",
        ],
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--steps", type=int, default=3_000_000, help="steps of all agents together")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--episodes", type=int, default=200, help="of each evaluation")
    parser.add_argument("--central", action="store_true", help="a central value function")
    parser.add_argument("--untrained", action="store_true", help="no training: random actions, and none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="write a checkpoint of what was learnt")
    parser.add_argument("--policy", help="no training: evaluate a checkpoint in the env of others")
    arguments = parser.parse_args()
    task = TASKS[arguments.task]
    name = f"{arguments.task}{' central' if arguments.central else ''}"
    name += f" seed {arguments.seed}" if arguments.seed else ""
    if arguments.policy:
        keep(f"{name} in {task['theirs']}", theirs(task, arguments.policy, arguments.episodes))
        return
    if arguments.untrained:
        keep(f"{arguments.task} untrained", untrained(task, arguments.episodes, arguments.seed))
        return
    config = PPOConfig(num_envs=task["envs"], torch_threads=1, central_value=arguments.central, **task["config"])
    processor, began, next_look = time.process_time(), time.monotonic(), 0
    history: list[dict[str, Any]] = []

    def look(progress: Any) -> bool:
        """Evaluate ten times in the course of training; return whether to go on."""
        nonlocal next_look
        in_time = time.monotonic() - began < 60.0 * arguments.minutes
        if progress.steps < next_look and progress.steps < progress.total_steps and in_time:
            return True
        next_look = progress.steps + arguments.steps // 10
        result = vecenv.evaluate(progress.trainer.policy, task["env"], episodes=arguments.episodes, **task["options"])
        row = result.table[0]
        history.append({"steps": progress.steps, "return": row.mean, "low": row.mean_low, "high": row.mean_high})
        print(
            f"{progress.steps:9,d} steps, {time.process_time() - processor:5.0f} s CPU: return {row.mean:.1f} "
            f"({row.mean_low:.1f} ... {row.mean_high:.1f}) of all agents, {row.mean / task['agents']:.1f} of each",
            flush=True,
        )
        return in_time

    with vecenv.make(task["env"], task["envs"], autoreset="same-step", **task.get("training", {})) as envs:
        trainer = PPO(envs, config, seed=arguments.seed).learn(arguments.steps, look)
        if arguments.save:
            trainer.save(arguments.save)
    for line in task["published"]:
        print(f"published: {line}")
    keep(name, {"seed": arguments.seed, "episodes": arguments.episodes, "history": history,
                "published": task["published"]})  # fmt: skip


def theirs(task: dict[str, Any], path: str, episodes: int) -> dict[str, Any]:
    """Returns of all agents together of a policy in PettingZoo's own env."""
    with vecenv.make(task["env"], task["envs"], autoreset="same-step") as envs:
        policy = PPO.load(path, envs).policy
    row = vecenv.evaluate(policy, task["theirs"], episodes=episodes, engine="sync", **task["options"]).table[0]
    print(f"return {row.mean:.1f} ({row.mean_low:.1f} ... {row.mean_high:.1f}) of all agents in {task['theirs']}")
    return {"episodes": episodes, "return": row.mean, "low": row.mean_low, "high": row.mean_high}


def untrained(task: dict[str, Any], episodes: int, seed: int) -> dict[str, Any]:
    """Returns of all agents together in the evaluation's episodes, with random actions and with action `stay`."""
    generator = np.random.default_rng(seed)
    policies = {
        "random": lambda obs: generator.integers(0, 5, len(obs)),
        "still": lambda obs: np.full(len(obs), task["stay"]),
    }
    found: dict[str, Any] = {"seed": seed, "episodes": episodes}
    for name, policy in policies.items():
        row = vecenv.evaluate(policy, task["env"], episodes=episodes, **task["options"]).table[0]
        found[name] = {"return": row.mean, "low": row.mean_low, "high": row.mean_high}
        print(f"{name}: return {row.mean:.1f} ({row.mean_low:.1f} ... {row.mean_high:.1f}) of all agents")
    return found


def keep(name: str, result: dict[str, Any]) -> None:
    """Write a result to the file, in place of an older one of the same name."""
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    RESULT.write_text(json.dumps({**found, name: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
