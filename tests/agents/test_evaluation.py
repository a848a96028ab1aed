"""`evaluate` with several agents, against PettingZoo's own loop over the same episodes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.agents.made_up import MadeUpAEC, MadeUpParallel
from vecenv.errors import ConfigError, ConfigTypeError

RAISING = (0.01, 0.02)


class CalmParallel(MadeUpParallel):
    """Agents die and join, but nothing raises."""

    def chance(self, probability: float) -> bool:
        return super().chance(probability) and probability not in RAISING


class CalmAEC(MadeUpAEC):
    """The same by turns."""

    def chance(self, probability: float) -> bool:
        return super().chance(probability) and probability not in RAISING


MAKERS = {
    "parallel": functools.partial(CalmParallel, 3, 4, True),
    "aec": functools.partial(CalmAEC, 5, 3, False),
}


def first_action(space: Any, total: float) -> Any:
    """An action that follows from an observation."""
    if hasattr(space, "n"):
        return int(total) % int(space.n)
    if hasattr(space, "nvec"):
        return (int(total) + np.arange(2)) % space.nvec
    return np.full(space.shape, np.cos(total), space.dtype)


def total_of(obs: Any) -> float:
    return sum(map(total_of, obs.values())) if isinstance(obs, dict) else float(np.sum(obs))


def policy_of(space: Any) -> Any:
    """Of a batch of observations."""

    def policy(obs: Any) -> Any:
        count = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        rows = [
            {key: leaf[row] for key, leaf in obs.items()} if isinstance(obs, dict) else obs[row] for row in range(count)
        ]
        return np.stack([first_action(space, total_of(row)) for row in rows])

    return policy


def by_their_loop(env: Any, seed: int) -> tuple[float, int]:
    """Return of all agents and number of steps."""
    total, length = 0.0, 0
    if hasattr(env, "agent_iter"):
        env.reset(seed=seed)
        for name in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            total += reward
            over = terminated or truncated
            env.step(None if over else first_action(env.action_space(name), total_of(obs)))
            length += not over
        return total, length
    observations, _ = env.reset(seed=seed)
    while env.agents:
        actions = {name: first_action(env.action_space(name), total_of(observations[name])) for name in env.agents}
        observations, rewards, *_ = env.step(actions)
        total, length = total + sum(rewards.values()), length + 1
    return total, length


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_episodes_have_the_returns_of_pettingzoos_loop(kind: str, num_envs: int) -> None:
    make = MAKERS[kind]
    with vecenv.make(make, 1, engine="sync") as envs:
        policies = {name: policy_of(space) for name, space in envs.single_action_spaces.items()}
    result = vecenv.evaluate(
        policies if len(policies) > 1 else next(iter(policies.values())), make, episodes=7, num_envs=num_envs,
        engine="sync",
    )  # fmt: skip
    assert len(result.returns) == 7
    for number, seed in enumerate(result.episode_seeds.tolist()):
        assert (result.returns[number], result.lengths[number]) == by_their_loop(make(), seed)


def test_masks_reach_the_policy_of_the_agent_whose_turn_it_is() -> None:
    asked = []

    def lowest(obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        assert len(obs) == len(mask)
        assert mask.any(axis=1).all()
        asked.append(len(obs))
        return np.argmax(mask, axis=1)

    result = vecenv.evaluate(lowest, "ConnectFourDuel-v0", episodes=6, num_envs=3)
    assert max(asked) <= 3, "one player of each game acts"
    assert len(set(result.lengths.tolist())) == 1
    assert result.terminated.all()
    assert result.returns.tolist() == [0.0] * 6, "one wins what the other loses"


def test_states_of_recurrent_policies_belong_to_agents() -> None:
    """A policy that counts its own steps: every agent's count begins at its first step."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def counting(obs: np.ndarray, state: Any, episode_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = np.zeros(len(obs)) if state is None else state
        count = np.where(episode_start, 0.0, before) + 1.0
        seen.append((count, episode_start))
        return np.zeros(len(obs), np.int64), count

    result = vecenv.evaluate(counting, "SimpleSpread-v0", episodes=5, num_envs=2)
    assert result.lengths.tolist() == [25] * 5
    assert sum(int(start.sum()) for _, start in seen) == 5 * 3
    assert all((count <= 25).all() for count, _ in seen)
    assert sum(int((count == 25).sum()) for count, _ in seen) == 5 * 3


def test_what_does_not_fit_is_said() -> None:
    make = MAKERS["parallel"]
    with pytest.raises(ConfigError, match="pass a dict of policies by group"):
        vecenv.evaluate(lambda obs: obs, make, engine="sync")
    with pytest.raises(ConfigError, match="policy has the groups"):
        vecenv.evaluate({"nobody": lambda obs: obs}, make, engine="sync")
    with pytest.raises(ConfigError, match="wrap= is for envs with one agent"):
        vecenv.evaluate(lambda obs: obs, "SimpleSpread-v0", wrap=lambda envs: envs)
    with vecenv.make("SimpleSpread-v0", 1) as envs, pytest.raises(ConfigTypeError, match="makes its own envs"):
        vecenv.evaluate(lambda obs: obs, envs)


def test_an_evaluation_in_the_background_copies_every_policy() -> None:
    running = vecenv.evaluate(lambda obs: np.zeros(len(obs), np.int64), "SimpleSpread-v0", episodes=2, background=True)
    now = vecenv.evaluate({"agents": lambda obs: np.zeros(len(obs), np.int64)}, "SimpleSpread-v0", episodes=2)
    assert running.result(timeout=50).returns.tolist() == now.returns.tolist()
