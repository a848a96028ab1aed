"""RLlib with several agents: sampling by RLlib's own runner and vector env, and by vecenv's two modes.

simple_spread with one policy that all agents share, in one process, the same network. RLlib's own steps mpe2's Python
envs, one after another; "vec" steps the same envs in an engine, or native code; "native" has no episode objects.
Runners take turns; env steps per second of the main thread's CPU time, the best of several.

    python benchmarks/rllib_agents.py --num-envs 32 --turns 3
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from vecenv.rllib import configure

RESULT = Path(__file__).parent / "rllib_agents.json"
NAME = "pettingzoo:mpe2.simple_spread_v3"
KERNEL = "SimpleSpread-v0"


def ppo() -> PPOConfig:
    config = PPOConfig().debugging(seed=0, log_level="ERROR")
    return config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))


def stock(num_envs: int) -> Any:
    register_env("spread", lambda config: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    config = ppo().environment("spread", disable_env_checking=True)
    config.env_runners(num_envs_per_env_runner=num_envs, num_env_runners=0)
    config.multi_agent(policies={"agents"}, policy_mapping_fn=lambda agent, *_, **__: "agents")
    return MultiAgentEnvRunner(config=config, worker_index=0)


def ours(env: str, mode: Any, num_envs: int, **options: Any) -> Any:
    config = configure(ppo(), env, num_envs, mode=mode, train_batch=4096, minibatch=512, **options)
    return config.env_runner_cls(config=config, worker_index=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=32)
    parser.add_argument("--steps", type=int, default=25, help="of all envs, per turn")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count = arguments.num_envs
    runners = {
        "RLlib's own, mpe2": stock(count),
        "vec, mpe2": ours(NAME, "vec", count, engine="sync"),
        "vec, kernel": ours(KERNEL, "vec", count),
        "native, mpe2": ours(NAME, "native", count, engine="sync"),
        "native, kernel": ours(KERNEL, "native", count),
    }
    best: dict[str, float] = dict.fromkeys(runners, 0.0)
    for turn in range(arguments.turns + 1):
        for name, runner in runners.items():
            before = time.thread_time()
            samples = runner.sample(num_timesteps=count * arguments.steps)
            spent = time.thread_time() - before
            if turn:  # the first one warms up
                best[name] = max(best[name], sum(sample.env_steps() for sample in samples) / spent)
    first = best["RLlib's own, mpe2"]
    for name, rate in best.items():
        print(f"{name:20s} {rate:12,.0f} env steps/s of CPU time, {rate / first:8.1f}x")
    found = {
        "num_envs": count,
        "env_steps_per_cpu_second": best,
        "ratio": {name: rate / first for name, rate in best.items()},
    }
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    for runner in runners.values():
        runner.stop()


if __name__ == "__main__":
    main()
