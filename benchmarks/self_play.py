"""Self-play in Connect Four: PPO against a league of past selves, a random player and one that looks a move ahead.

It is judged by games won (a draw is none) in new games against a random player and against the opponent of
ConnectFour-v0, which wins if it can, else prevents a win, else plays at random. The league's own player of that kind
(`LookaheadPlayer`) follows the same rule. Both seats are played alike. The last result is written to
benchmarks/self_play.json.

Run: python benchmarks/self_play.py [--steps 3000000] [--minutes 60]     (needs torch)
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import vecenv
from vecenv.agents import League
from vecenv.trainers import PPO, PPOConfig

HEIGHT, WIDTH = 6, 7
RESULT = Path(__file__).parent / "self_play.json"
WANTED = {"random": 0.95, "lookahead": 0.60}


class RandomPlayer:
    """Drops discs at random into columns that are not full."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, obs: Any, mask: Any) -> np.ndarray:
        return np.argmax(self._rng.random(mask.shape) * mask, axis=1)


class LookaheadPlayer(RandomPlayer):
    """Wins if it can, else prevents a win with the next disc, else plays at random."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._lines = winning_lines()

    def __call__(self, obs: Any, mask: Any) -> np.ndarray:
        own, theirs = obs[:, 0].reshape(len(obs), -1), obs[:, 1].reshape(len(obs), -1)
        free = (own + theirs == 0).reshape(-1, HEIGHT, WIDTH)
        below = np.concatenate([~free[:, 1:], np.ones((len(obs), 1, WIDTH), bool)], axis=1)
        playable = free & below
        at_random = super().__call__(obs, mask) + 0
        prefer = self._rng.random((len(obs), WIDTH)) * mask
        for rank, (one, other) in enumerate(((theirs, own), (own, theirs)), 1):
            almost = (one @ self._lines.T == 3) & (other @ self._lines.T == 0)
            cells = (almost.astype(np.float32) @ self._lines > 0).reshape(-1, HEIGHT, WIDTH)
            prefer += 10.0 * rank * (cells & playable).any(axis=1)
        return np.where(prefer.max(axis=1) > 1.0, np.argmax(prefer, axis=1), at_random)


def winning_lines() -> np.ndarray:
    """The 69 lines of four: float32 [lines, cells]."""
    lines = []
    for y in range(HEIGHT):
        for x in range(WIDTH):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(y + step * down, x + step * right) for step in range(4)]
                if all(row < HEIGHT and 0 <= column < WIDTH for row, column in cells):
                    line = np.zeros((HEIGHT, WIDTH), np.float32)
                    line[tuple(np.transpose(cells))] = 1.0
                    lines.append(line.reshape(-1))
    return np.stack(lines)


class BoardNetwork(nn.Module):
    """A convolution that sees four cells each way, as far as a line reaches, then two layers.

    Of a board and its mirror image it sees one and the same: what is learned on the left holds on the right.
    """

    def __init__(self, space: Any, outputs: int, channels: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.lines = nn.Conv2d(3, channels, 4, padding=1)
        self.hidden = nn.Linear(channels * (HEIGHT - 1) * (WIDTH - 1), hidden)
        self.more = nn.Linear(hidden, hidden)
        self.policy, self.value = nn.Linear(hidden, outputs), nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)
        sides = torch.sqrt(torch.arange(2.0, 2.0 + HEIGHT * WIDTH)).reshape(HEIGHT, WIDTH)
        self.register_buffer("sides", sides - sides.flip(1), persistent=False)

    def forward(self, obs: Any, memory: Any, began: Any) -> tuple[Any, Any, Any]:
        """Scores of the columns, values, no memory. A plane of ones, zero outside, marks the edge of the board."""
        obs = obs.float()
        mirrored = ((obs[:, 0] - obs[:, 1]) * self.sides).sum(dim=(1, 2)) < 0
        obs = torch.where(mirrored[:, None, None, None], obs.flip(3), obs)
        planes = torch.cat([obs, torch.ones_like(obs[:, :1])], dim=1)
        features = torch.relu(self.hidden(torch.relu(self.lines(planes)).flatten(1)))
        features = torch.relu(self.more(features))
        scores = self.policy(features)
        return torch.where(mirrored[:, None], scores.flip(1), scores), self.value(features).squeeze(-1), None


Score = dict[str, float]
"""Shares of games that are won, drawn and lost."""


def against_random(policy: Any, games: int) -> Score:
    """How games against a random player end."""
    with vecenv.make("ConnectFourDuel-v0", 100, autoreset="same-step") as envs:
        return _score(envs.versus(RandomPlayer(1)), policy, games)


def against_lookahead(policy: Any, games: int) -> Score:
    """The same against the opponent of ConnectFour-v0."""
    with vecenv.make("ConnectFour-v0", 100, autoreset="same-step") as envs:
        return _score(envs, policy, games)


def _score(envs: Any, policy: Any, games: int) -> Score:
    """The first games of each env count, as many of each: short games do not count more than long ones."""
    obs, infos = envs.reset(seed=7)
    quota = np.full(envs.num_envs, -(-games // envs.num_envs))
    results: list[float] = []
    while quota.any():
        actions = policy(obs.astype(np.float32), mask=infos["action_mask"].astype(bool))
        obs, reward, terminated, truncated, infos = envs.step(actions)
        ended = (terminated | truncated) & (quota > 0)
        quota[ended] -= 1
        results += np.sign(reward[ended]).tolist()
    return {name: results.count(sign) / len(results) for name, sign in (("won", 1.0), ("drawn", 0.0), ("lost", -1.0))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--minutes", type=float, default=120.0, help="stop after this time")
    parser.add_argument("--every", type=int, default=100_000, help="steps between new policies of the league")
    parser.add_argument("--games", type=int, default=1000, help="games of each evaluation")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    players = {"random": RandomPlayer(0), "lookahead": LookaheadPlayer(0)}
    league = League(players, power=1.0, floor=0.1, limit=5, seed=arguments.seed)
    config = PPOConfig(
        rollout_steps=64, minibatch=2048, epochs=3, learning_rate=lambda done: 1e-3 * (1.0 - 0.9 * done),
        entropy=0.01, gamma=0.99, lam=0.9, mask="action_mask", torch_threads=1,
    )  # fmt: skip
    processor, began = time.process_time(), time.monotonic()
    with vecenv.make("ConnectFourDuel-v0", 128, autoreset="same-step") as envs:
        trainer = PPO(envs.versus(league), config, seed=arguments.seed, network=BoardNetwork)

        def report(progress: Any) -> bool:
            """Every so many steps: judge the policy and add it to the league. Returns whether to go on."""
            if progress.steps < report.next and progress.steps < progress.total_steps:
                return time.monotonic() - began < 60.0 * arguments.minutes
            report.next += arguments.every
            policy = trainer.policy
            found = {
                "random": against_random(policy, arguments.games),
                "lookahead": against_lookahead(policy, arguments.games),
            }
            seconds = time.process_time() - processor
            shown = ", ".join(
                f"{name} {score['won']:.1%} won, {score['drawn']:.1%} drawn" for name, score in found.items()
            )
            print(f"{trainer.steps:9,d} steps, {seconds:6.0f} s CPU: {shown}", flush=True)
            data = {
                "steps": trainer.steps,
                "cpu_seconds": round(seconds),
                "games": arguments.games,
                "seed": arguments.seed,
            }
            RESULT.write_text(json.dumps({**data, "score": found, "wanted": WANTED}, indent=2) + "\n")
            league.add(f"self-{trainer.steps}", functools.partial(policy, deterministic=False))
            return time.monotonic() - began < 60.0 * arguments.minutes

        report.next = arguments.every
        trainer.learn(arguments.steps, report)


if __name__ == "__main__":
    main()
