"""RLlib's three modes side by side: CartPole, one process, the same network, batch and minibatch.

Modes take turns. Sampling is one `sample()` of a train batch, an iteration is one `train()` of PPO (2 epochs, MLP of
2 x 64). Both in env steps per second of wall time and of the main thread's CPU time, the best of several.

    python benchmarks/rllib.py --num-envs 1024 8192 --turns 3
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from rich.console import Console
from rich.table import Table

from vecenv.rllib import MODES, configure

STEPS = {64: 128, 1024: 32, 8192: 16}
"""Steps of all envs per train batch, by number of envs."""
RESULTS = Path(__file__).parent / "results" / "rllib.json"


def build(mode: str, num_envs: int, batch: int, minibatch: int) -> Any:
    config = PPOConfig().debugging(seed=0, log_level="ERROR")
    config.training(num_epochs=2, lr=1e-3, use_kl_loss=False, vf_clip_param=1e6, grad_clip=0.5)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
    return configure(config, "CartPole-v1", num_envs, mode=mode, train_batch=batch, minibatch=minibatch).build_algo()


def timed(function: Any) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.thread_time()
    result = function()
    return time.perf_counter() - wall, time.thread_time() - cpu, result


def measure(num_envs: int, turns: int, minibatch: int) -> dict[str, dict[str, float]]:
    batch = STEPS.get(num_envs, max(1, 32768 // num_envs)) * num_envs
    running = {mode: build(mode, num_envs, batch, minibatch) for mode in MODES}
    best: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    for turn in range(turns + 1):
        for mode, algorithm in running.items():
            wall, cpu, _ = timed(algorithm.env_runner.sample)
            steps = algorithm.env_runner.get_metrics()["num_env_steps_sampled"].peek()
            rates = {"sampling": steps / wall, "sampling, CPU": steps / cpu}
            wall, cpu, result = timed(algorithm.train)
            steps = result["env_runners"]["num_env_steps_sampled"]
            rates |= {"iteration": steps / wall, "iteration, CPU": steps / cpu}
            if turn:  # the first one warms up
                best[mode] = {name: max(rate, best[mode].get(name, 0.0)) for name, rate in rates.items()}
    for algorithm in running.values():
        algorithm.stop()
    return best


def show(console: Console, num_envs: int, best: dict[str, dict[str, float]]) -> None:
    table = Table(title=f"{num_envs:,} CartPoles: env steps per second, and times vec", title_justify="left")
    for name in ("", *best["vec"]):
        table.add_column(name, justify="right" if name else "left")
    for mode, rates in best.items():
        table.add_row(mode, *(f"{rate:,.0f} ({rate / best['vec'][name]:.1f}x)" for name, rate in rates.items()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 1024, 8192])
    parser.add_argument("--turns", type=int, default=4, help="the best of this many counts")
    parser.add_argument("--minibatch", type=int, default=4096)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    console, found = Console(), {}
    for num_envs in options.num_envs:
        found[num_envs] = measure(num_envs, options.turns, options.minibatch)
        show(console, num_envs, found[num_envs])
    ray.shutdown()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"ray": ray.__version__, "torch": torch.__version__, "results": found}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
