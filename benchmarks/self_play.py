"""Self-play in Connect Four: PPO against a league of its past selves, judged by players that it never met.

Run: python benchmarks/self_play.py [--steps 1000000]     (needs torch)
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import vecenv
from vecenv.agents import League
from vecenv.trainers import PPO, PPOConfig


class RandomPlayer:
    """Drops discs at random into columns that are not full."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, obs: Any, mask: Any) -> np.ndarray:
        return np.argmax(self._rng.random(mask.shape) * mask, axis=1)


def against_random(policy: Any, games: int = 500) -> float:
    """Share of games that are won; a draw is half a win."""
    with vecenv.make("ConnectFourDuel-v0", 50, autoreset="same-step") as envs:
        return _won(envs.versus(RandomPlayer(1)), policy, games)


def against_lookahead(policy: Any, games: int = 500) -> float:
    """The same against the opponent of ConnectFour-v0: it wins if it can, else prevents a win, else plays at random."""
    with vecenv.make("ConnectFour-v0", 50, autoreset="same-step") as envs:
        return _won(envs, policy, games)


def _won(envs: Any, policy: Any, games: int) -> float:
    obs, infos = envs.reset(seed=7)
    points, played = 0.0, 0
    while played < games:
        actions = policy(obs.astype(np.float32), mask=infos["action_mask"].astype(bool))
        obs, reward, terminated, truncated, infos = envs.step(actions)
        ended = terminated | truncated
        points, played = points + float((reward[ended] + 1.0).sum()) / 2, played + int(ended.sum())
    return points / played


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=50_000, help="steps between new policies of the league")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    league = League({"random": RandomPlayer(0)}, power=2.0, limit=12, seed=arguments.seed)
    config = PPOConfig(
        rollout_steps=64, minibatch=1024, epochs=4, hidden=(256, 256), learning_rate=1e-3, entropy=0.01,
        gamma=0.99, lam=0.95, mask="action_mask", torch_threads=1,
    )  # fmt: skip
    started = time.process_time()
    with vecenv.make("ConnectFourDuel-v0", 64, autoreset="same-step") as envs:
        trainer = PPO(envs.versus(league), config, seed=arguments.seed)
        while trainer.steps < arguments.steps:
            trainer.learn(min(arguments.steps, trainer.steps + arguments.every))
            policy = trainer.policy
            league.add(f"self-{trainer.steps}", policy)
            print(
                f"{trainer.steps:9,d} steps, {time.process_time() - started:6.1f} s CPU: "
                f"random {against_random(policy):.1%}, lookahead {against_lookahead(policy):.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
