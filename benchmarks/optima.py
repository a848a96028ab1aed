"""The best possible mean return of the toy-text envs in the episodes of docs/results.md, computed from their rules.

Value iteration over the table of transitions that Gymnasium's env has, as many steps as an episode may last; for
Blackjack-v1, which has no such table, the same over its hands. Nothing is sampled but the start states, which are those
of the episodes' seeds. The result is written to benchmarks/optima.json, which `benchmarks/learning.py` reads.

Run: python benchmarks/optima.py
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv.evaluation._jobs import plan_jobs

RESULT = Path(__file__).parent / "optima.json"
SEEDS, EPISODES = 10, 10
"""Of the evaluations in docs/results.md."""
TABLES = ("Taxi-v3", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1")
BLACKJACK = "Blackjack-v1"
CARDS = {**dict.fromkeys(range(1, 10), 1 / 13), 10: 4 / 13}
"""Probability of each card; an ace is 1."""


def main() -> None:
    found = {env_id: round(optimum(env_id), 4) for env_id in (*TABLES, BLACKJACK)}
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    for env_id, value in found.items():
        print(f"{env_id:24} {value:.4f}")


def optimum(env_id: str) -> float:
    """Mean return of the best policy from the start states of the evaluation's episodes.

    Of Blackjack-v1 it is the mean over all deals: chance decides more in its episodes than their first cards.
    """
    if env_id == BLACKJACK:
        return sum(
            CARDS[shown] * CARDS[first] * CARDS[second] * hand_value(first + second, 1 in (first, second), 2, shown)
            for shown in CARDS for first in CARDS for second in CARDS
        )  # fmt: skip
    with gymnasium.make(env_id) as env:
        table: Any = env.unwrapped
        values = state_values(table.P, env.spec.max_episode_steps if env.spec else None)
        starts = [env.reset(seed=int(seed))[0] for seed in plan_jobs(EPISODES, SEEDS, None).episode_seed]
    return float(np.mean(values[starts]))


def state_values(transitions: Any, steps: int | None) -> np.ndarray:
    """Expected sum of rewards of the best policy from each state in `steps` steps; None: until it changes no more.

    Args:
        transitions: as Gymnasium's `env.unwrapped.P`: [state][action], a list of (probability, next state, reward,
            terminated).
        steps: time limit of an episode.
    """
    states, actions = len(transitions), len(transitions[0])
    chances, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    for state in range(states):
        for action in range(actions):
            for probability, following, reward, terminated in transitions[state][action]:
                rewards[state, action] += probability * reward
                chances[state, action, following] += 0.0 if terminated else probability
    values = np.zeros(states)
    for _ in range(100_000 if steps is None else steps):
        before, values = values, (rewards + chances @ values).max(axis=1)
        if np.abs(values - before).max() < 1e-10:
            break
    return values


@cache
def hand_value(cards_sum: int, ace: bool, count: int, shown: int) -> float:
    """Expected reward of a player of Blackjack-v1 who plays best.

    Args:
        cards_sum: the player's cards, an ace as 1.
        ace: whether one of them is an ace.
        count: how many cards they are.
        shown: the dealer's card.
    """
    if cards_sum > 21:
        return -1.0
    hit = sum(
        chance * hand_value(cards_sum + card, ace or card == 1, count + 1, shown) for card, chance in CARDS.items()
    )
    own, natural = score(cards_sum, ace), is_natural(cards_sum, ace, count)
    stick = sum(
        chance * (1.0 if natural and not theirs_natural else float(np.sign(own - theirs)))
        for (theirs, theirs_natural), chance in dealer_scores(shown, shown == 1, 1).items()
    )
    return max(hit, stick)


@cache
def dealer_scores(cards_sum: int, ace: bool, count: int) -> dict[tuple[int, bool], float]:
    """Probabilities of the dealer's final score (0: more than 21) and whether it is an ace and a ten."""
    own = score(cards_sum, ace)
    if count > 1 and (own >= 17 or cards_sum > 21):
        return {(own, is_natural(cards_sum, ace, count)): 1.0}
    found: dict[tuple[int, bool], float] = {}
    for card, chance in CARDS.items():
        for end, share in dealer_scores(cards_sum + card, ace or card == 1, count + 1).items():
            found[end] = found.get(end, 0.0) + chance * share
    return found


def score(cards_sum: int, ace: bool) -> int:
    """The value of a hand, with an ace as 11 where that fits; 0 of more than 21."""
    return 0 if cards_sum > 21 else cards_sum + 10 if ace and cards_sum <= 11 else cards_sum


def is_natural(cards_sum: int, ace: bool, count: int) -> bool:
    """Whether a hand is an ace and a ten."""
    return count == 2 and ace and cards_sum == 11


if __name__ == "__main__":
    main()
