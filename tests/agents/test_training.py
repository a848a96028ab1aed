"""PPO with one policy for all agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.agents import League
from vecenv.errors import ConfigError, UnsupportedError
from vecenv.trainers import PPO, PPOConfig


@vecenv.kernel("Guess-v0", max_episode_steps=20)
class Guess:
    """Each agent is shown a number to name; who is wrong dies by chance. Observations of the living are never zero."""

    agents = 4
    observation_space = Box(0.0, 1.0, (5,), np.float32)
    action_space = Discrete(3)
    state = {"number": (np.int64, 4)}

    def reset(s, rng, p):
        for agent in range(4):
            s.number[agent] = rng.integers(3)

    def step(s, actions, reward, done, rng, p):
        for agent in range(4):
            if not done[agent]:
                right = actions[agent] == s.number[agent]
                reward[agent] = 1.0 if right else 0.0
                if not right and rng.random() < 0.3:
                    done[agent] = True
                s.number[agent] = rng.integers(3)

    def observe(s, agent, obs, p):
        obs[s.number[agent]] = 1.0
        obs[4] = 1.0

    def action_mask(s, agent, mask, p):
        mask[:] = 1


CONFIG = {"rollout_steps": 32, "minibatch": 256, "epochs": 4, "hidden": (32,), "learning_rate": 3e-3}


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_updates_see_transitions_of_living_agents_alone(mode: Any) -> None:
    with vecenv.make("Guess-v0", 8, autoreset=mode) as envs:
        trainer = PPO(envs, PPOConfig(**CONFIG), seed=1)
        assert trainer.collector.num_envs == 32
        seen: list[Any] = []
        rows = trainer._rows

        def spied(columns: Any, size: int) -> Any:
            seen.append((trainer.buffer.valid.flatten(), columns["obs"].copy()))
            for batch in rows(columns, size):
                assert (batch["obs"][:, 4] == 1.0).all(), "a dead agent's row is in the update"
                yield batch

        trainer._rows = spied  # type: ignore[method-assign]
        trainer.learn(2000)
    valid, obs = seen[0]
    assert not valid.all(), "agents died"
    assert bool((obs[~valid][:, 4] == 0.0).any())
    assert bool((obs[valid][:, 4] == 1.0).all())


@pytest.mark.parametrize("mask", [None, "action_mask"])
def test_agents_that_share_a_policy_learn(mask: str | None) -> None:
    with vecenv.make("Guess-v0", 8, autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(**CONFIG, mask=mask), seed=0)
        trainer.learn(20_000)
        obs, _ = envs.reset(seed=5)
        policy, total = trainer.policy, 0.0
        masks = {} if mask is None else {"mask": np.ones((32, 3), bool)}
        for _ in range(19):
            actions = policy(obs.reshape(32, 5), **masks)
            step = envs.step(np.asarray(actions).reshape(8, 4))
            obs, total = step.obs, total + step.reward.sum()
    assert total / (19 * 32) > 0.9, "at random an agent gets less than 0.2"


def test_a_checkpoint_of_shared_agents_is_read(tmp_path: Any) -> None:
    with vecenv.make("Guess-v0", 4, autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(**CONFIG), seed=0)
        trainer.learn(1000)
        trainer.save(tmp_path / "run")
        again = PPO.load(tmp_path / "run", envs)
        assert again.steps == trainer.steps
        again.learn(3000)


def test_agents_by_turns_are_refused() -> None:
    with vecenv.make("ConnectFourDuel-v0", 4, autoreset="same-step") as envs:
        with pytest.raises(UnsupportedError, match="act by turns"):
            PPO(envs, PPOConfig(**CONFIG)).learn(500)
        with pytest.raises(ConfigError, match="one group"):
            PPO([envs.flat(), envs.flat()], PPOConfig(**CONFIG))


def test_self_play_against_a_policy_learns() -> None:
    """A player that looks at nothing is beaten by one who learns."""

    def left(obs: np.ndarray) -> np.ndarray:
        full = (obs[:, 0, 0] + obs[:, 1, 0]) > 0  # the top row
        return np.argmax(~full, axis=1)

    with vecenv.make("ConnectFourDuel-v0", 16, autoreset="same-step") as envs:
        game = envs.versus(left)
        trainer = PPO(game, PPOConfig(**{**CONFIG, "hidden": (64,)}, mask="action_mask"), seed=0)
        trainer.learn(12_000)
        assert trainer.collector.episodes.mean()[0] > 0.8
        league = League({"left": left, "itself": trainer.policy}, seed=0)  # which is given masks
        again = envs.versus(league)
        obs, infos = again.reset(seed=0)
        while league.records["itself"].games < 4:
            actions = trainer.policy(obs, mask=infos["action_mask"].astype(bool))
            obs, *_, infos = again.step(actions)
