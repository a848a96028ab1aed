"""Training next to Stable-Baselines3: PPO, SAC, advantages, replay. One run, contestants in turn, ratios.

Questions:
  cartpole     seconds until the last 100 episodes of CartPole-v1 have a mean return of 475, median of five seeds:
               Stable-Baselines3 with rl-zoo's settings and 8 envs; ours with these very settings; ours with our own
  throughput   steps per second of PPO, two layers of 64, 4 epochs: ours with 1,024 CartPoles, theirs with its own
               DummyVecEnv at the best of some sizes; same rollout length, same minibatch
  where        where our time goes in that run
  gae          advantages of [128, 4096]
  replay       adding a step of 64 envs and drawing 256 transitions
  sac          gradient steps per second of SAC on Pendulum-v1, minibatch 256, two layers of 256
  same-...     the whole loop with the same settings, networks and minibatches, both on one thread, envs included, in
               turns: steps per second of CPU time; PPO on CartPole-v1 and HalfCheetah-v5 (normalized), SAC on
               HalfCheetah-v5

Run: python benchmarks/train.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench,torch]')
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from stable_baselines3.common import buffers as their_buffers
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import vecenv
from vecenv import Op, Step, buffers
from vecenv.trainers import PPO, SAC, PPOConfig, SACConfig

ZOO: dict[str, Any] = {"num_envs": 8, "rollout_steps": 32, "epochs": 20, "minibatch": 256, "learning_rate": 1e-3,
                       "anneal": True, "gamma": 0.98, "lam": 0.8}  # fmt: skip
GOAL, STEPS = 475, 200_000
Results = dict[str, float]


# --- CartPole to 475 -------------------------------------------------------------------------------------------------


class _Goal(BaseCallback):
    """Looks once per update, as ours does."""

    mean = 0.0

    def _on_rollout_end(self) -> None:
        recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        self.mean = float(np.mean(recent)) if len(recent) == 100 else 0.0

    def _on_step(self) -> bool:
        return self.mean < GOAL


def _theirs_to_goal(seed: int) -> float:
    envs = make_vec_env("CartPole-v1", 8, seed=seed)
    model = stable_baselines3.PPO(
        "MlpPolicy", envs, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20, ent_coef=0.0,
        learning_rate=lambda left: left * 1e-3, clip_range=lambda left: left * 0.2, seed=seed, device="cpu",
    )  # fmt: skip
    started, goal = time.perf_counter(), _Goal()
    model.learn(STEPS // 2, callback=goal)
    return _checked(time.perf_counter() - started, goal.mean)


def _ours_to_goal(config: PPOConfig, steps: int, seed: int) -> float:
    trainer = PPO("CartPole-v1", config, seed=seed)
    started = time.perf_counter()
    trainer.learn(steps, lambda progress: not (progress.episodes >= 100 and progress.mean_return >= GOAL))
    seconds = time.perf_counter() - started
    trainer.close()
    return _checked(seconds, trainer.collector.episodes.mean()[0])


def _checked(seconds: float, mean: float) -> float:
    """Infinity if the goal was not reached."""
    return seconds if mean >= GOAL else float("inf")


def cartpole(quick: bool) -> Results:
    contestants: dict[str, Callable[[int], float]] = {
        "Stable-Baselines3, rl-zoo's settings": _theirs_to_goal,
        "vecenv, the same settings": lambda seed: _ours_to_goal(PPOConfig(**ZOO), STEPS // 2, seed),
        "vecenv, its own settings": lambda seed: _ours_to_goal(PPO.defaults_for("CartPole-v1"), 150_000, seed),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for seed in range(1 if quick else 5):
        for name, run in contestants.items():
            seconds[name].append(run(seed))
    return {name: statistics.median(values) for name, values in seconds.items()}


# --- throughput ------------------------------------------------------------------------------------------------------


def _our_config(envs: int) -> PPOConfig:
    return PPOConfig(num_envs=envs, rollout_steps=32, epochs=4, minibatch=8192 if envs >= 256 else 32 * envs)


def _our_rate(envs: int, rollouts: int) -> tuple[float, dict[str, float]]:
    trainer = PPO("CartPole-v1", _our_config(envs), seed=0).learn(envs * 32)
    seen: list[Any] = []
    trainer.learn(envs * 32 * (rollouts + 1), seen.append)
    trainer.close()
    return seen[-1].steps_per_second, seen[-1].time


def _their_rate(envs: int, rollouts: int) -> float:
    made = make_vec_env("CartPole-v1", envs, seed=0)
    model = stable_baselines3.PPO(
        "MlpPolicy", made, n_steps=32, batch_size=min(8192, 32 * envs), n_epochs=4, seed=0, device="cpu"
    )
    model.learn(envs * 32)
    started = time.perf_counter()
    model.learn(envs * 32 * rollouts, reset_num_timesteps=False)
    return envs * 32 * rollouts / (time.perf_counter() - started)


def throughput(quick: bool) -> Results:
    found: Results = {}
    for _ in range(1 if quick else 3):
        for envs in (64,) if quick else (8, 32, 128, 512):
            name = f"Stable-Baselines3, {envs} envs"
            found[name] = max(found.get(name, 0.0), _their_rate(envs, 2 if quick else max(2, 256 // envs)))
        rate = _our_rate(1024, 1 if quick else 10)[0]
        found["vecenv, 1024 envs"] = max(found.get("vecenv, 1024 envs", 0.0), rate)
    best = max((name for name in found if name.startswith("Stable")), key=found.__getitem__)
    return {"Stable-Baselines3, its best size": found[best], **found}


# --- the whole loop, same settings -----------------------------------------------------------------------------------

SAME: dict[str, tuple[str, Any, int]] = {
    "same-cartpole": ("CartPole-v1", PPOConfig(
        num_envs=8, rollout_steps=32, epochs=20, minibatch=256, learning_rate=1e-3, gamma=0.98, lam=0.8), 2_560),
    "same-halfcheetah": ("HalfCheetah-v5", PPOConfig(
        num_envs=8, rollout_steps=256, epochs=10, minibatch=64, normalize_obs=True, normalize_reward=True), 2_048),
    "same-sac": ("HalfCheetah-v5", SACConfig(num_envs=1, warmup=400), 500),
}  # fmt: skip
"""Env, settings, and steps of a turn."""


def same(name: str, quick: bool) -> Results:
    env_id, config, turn = SAME[name]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    envs = vecenv.make(env_id, config.num_envs, workers=1, autoreset="same-step", copy=False)
    ours = {PPOConfig: PPO, SACConfig: SAC}[type(config)](
        envs, dataclasses.replace(config, torch_threads=1), seed=0, device="cpu"
    )
    theirs = train_theirs(env_id, config)
    learn = {
        "Stable-Baselines3": lambda steps: theirs.learn(turn, reset_num_timesteps=False),
        "vecenv": lambda steps: ours.learn(steps),
    }
    best = dict.fromkeys(learn, 0.0)
    for number in range(2 if quick else 9):  # the first turn, with warmup and compilation, does not count
        for who, run in learn.items():
            began = time.process_time()
            run((number + 1) * turn)
            if number:
                best[who] = max(best[who], turn / (time.process_time() - began))
    envs.close()
    torch.set_num_threads(threads)
    return best


def train_theirs(env_id: str, config: Any) -> Any:
    """A model of Stable-Baselines3 with our settings; both have two layers of the same size."""
    envs: Any = make_vec_env(env_id, config.num_envs, seed=0)
    if config.normalize_obs:
        envs = VecNormalize(envs, gamma=config.gamma)
    common = {"learning_rate": config.learning_rate, "gamma": config.gamma, "batch_size": config.minibatch,
              "policy_kwargs": {"net_arch": list(config.hidden)}, "seed": 0, "device": "cpu"}  # fmt: skip
    if isinstance(config, SACConfig):
        return stable_baselines3.SAC("MlpPolicy", envs, learning_starts=config.warmup, **common)
    return stable_baselines3.PPO(
        "MlpPolicy", envs, n_steps=config.rollout_steps, n_epochs=config.epochs, gae_lambda=config.lam, **common
    )


def where(quick: bool) -> Results:
    _, shares = _our_rate(1024, 2 if quick else 20)
    return {**{name: 100 * share for name, share in shares.items()}, "other": 100 * (1 - sum(shares.values()))}


# --- advantages and replay -------------------------------------------------------------------------------------------


def gae(quick: bool) -> Results:
    length, count, generator = 128, 4096, np.random.default_rng(0)
    reward, value = generator.normal(size=(2, length, count)).astype(np.float32)
    last = generator.normal(size=count).astype(np.float32)
    terminated, truncated = generator.random((2, length, count)) < 0.01
    theirs = their_buffers.RolloutBuffer(length, spaces.Box(-1, 1, (4,)), spaces.Discrete(2), n_envs=count)
    theirs.rewards[:], theirs.values[:] = reward, value
    theirs.episode_starts[1:] = (terminated | truncated)[:-1]
    done, tensor = terminated[-1] | truncated[-1], torch.from_numpy(last)
    out = np.empty_like(value), np.empty_like(value)
    return _race({
        "Stable-Baselines3": lambda: theirs.compute_returns_and_advantage(tensor, done),
        "vecenv": lambda: buffers.gae(reward, value, last, terminated, truncated, gamma=0.99, lam=0.95, out=out),
    }, quick)  # fmt: skip


def replay(quick: bool) -> Results:
    count, observation, action = 64, spaces.Box(-1, 1, (17,), np.float32), spaces.Box(-1, 1, (6,), np.float32)
    theirs = their_buffers.ReplayBuffer(100_000, observation, action, "cpu", count)
    ours = buffers.ReplayBuffer(observation, action, 100_000, count)
    generator = np.random.default_rng(0)
    obs, after = generator.normal(size=(2, count, 17)).astype(np.float32)
    actions, reward = generator.normal(size=(count, 6)).astype(np.float32), generator.normal(size=count)
    done, no = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(count)]
    nothing = np.zeros(count)
    step = Step(after, reward, no, no, {}, np.arange(count), np.full(count, Op.ROLL, np.uint8), nothing, nothing)

    def add_and_draw_theirs() -> None:
        theirs.add(obs, after, actions, reward, done, infos)
        theirs.sample(256)

    def add_and_draw_ours() -> None:
        ours.add(obs, actions, step)
        ours.sample(256).torch()

    return _race({"Stable-Baselines3": add_and_draw_theirs, "vecenv": add_and_draw_ours}, quick)


def sac(quick: bool) -> Results:
    steps = 10 if quick else 400
    threads, found = torch.get_num_threads(), {}
    torch.set_num_threads(1)
    envs = make_vec_env("Pendulum-v1", 1, seed=0)
    theirs = stable_baselines3.SAC("MlpPolicy", envs, learning_starts=300, seed=0, device="cpu").learn(320)
    ours = SAC("Pendulum-v1", SACConfig(num_envs=1, warmup=300), seed=0).learn(320)
    for count in [1] if quick else sorted({1, threads}):
        torch.set_num_threads(count)
        found |= _race({
            f"Stable-Baselines3, {count} threads": lambda: theirs.train(steps, 256),
            f"vecenv, {count} threads": lambda: [ours._update(ours.buffer.sample(256)) for _ in range(steps)],
        }, quick, times=steps, turns=3)  # fmt: skip
    torch.set_num_threads(threads)
    their_best = max(rate for name, rate in found.items() if name.startswith("Stable"))
    our_best = max(rate for name, rate in found.items() if name.startswith("vecenv"))
    return {"Stable-Baselines3": their_best, "vecenv": our_best, **found}


def _race(contestants: dict[str, Callable[[], Any]], quick: bool, times: int = 1, turns: int = 200) -> Results:
    """How often each can be done in a second; they take turns, and the best turn counts."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(min(turns, 5) if quick else turns):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: times / seconds for name, seconds in best.items()}


# --- tables ----------------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, tuple[str, Callable[[bool], Results], str]] = {
    "cartpole": ("CartPole-v1 to 475: seconds", cartpole, "seconds"),
    "throughput": ("PPO, CartPole-v1, 4 epochs: steps per second", throughput, "rate"),
    "same-cartpole": ("PPO, CartPole-v1, same settings: steps per CPU second", partial(same, "same-cartpole"), "rate"),
    "same-halfcheetah": (
        "PPO, HalfCheetah-v5, same settings: steps per CPU second",
        partial(same, "same-halfcheetah"),
        "rate",
    ),
    "same-sac": ("SAC, HalfCheetah-v5, same settings: steps per CPU second", partial(same, "same-sac"), "rate"),
    "where": ("PPO, 1,024 CartPoles: where time goes, per cent", where, "share"),
    "gae": ("Advantages of [128, 4096]: per second", gae, "rate"),
    "replay": ("Replay, add 64 and draw 256: per second", replay, "rate"),
    "sac": ("SAC, Pendulum-v1, minibatch 256: gradient steps per second", sac, "rate"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", choices=QUESTIONS)
    options = parser.parse_args()
    console, found = Console(), {}
    for name in options.only or QUESTIONS:
        title, run, kind = QUESTIONS[name]
        found[name] = run(options.quick)
        table = Table(title=title, title_justify="left")
        table.add_column("")
        table.add_column(kind, justify="right")
        if kind != "share":
            table.add_column("times the first", justify="right")
        first = next(iter(found[name].values()))
        for row, value in found[name].items():
            ratio = first / value if kind == "seconds" else value / first
            table.add_row(row, f"{value:,.2f}", *([f"{ratio:.2f}"] if kind != "share" else []))
        console.print(table)
    about = {"python": platform.python_version(), "cpus": os.cpu_count(), "torch": torch.__version__,
             "stable_baselines3": stable_baselines3.__version__}  # fmt: skip
    results = Path(__file__).parent / "results" / "train.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({"machine": about, "results": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
