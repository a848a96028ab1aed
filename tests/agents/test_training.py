"""PPO with one policy for all agents."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.agents import League
from vecenv.errors import ConfigError, UnsupportedError
from vecenv.trainers import DQN, PPO, PPOConfig


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


@vecenv.kernel("GuessInTurn-v0", max_episode_steps=30)
class GuessInTurn:
    """As Guess, one agent after the other; who was wrong may be dead by its next turn, and is told by then."""

    agents = 3
    observation_space = Box(0.0, 1.0, (4,), np.float32)
    action_space = Discrete(3)
    state = {"number": (np.int64, 3), "turn": int}

    def reset(s, rng, p):
        for agent in range(3):
            s.number[agent] = rng.integers(3)
        s.turn = 0

    def step(s, actions, reward, done, rng, p):
        right = actions[s.turn] == s.number[s.turn]
        reward[s.turn] = 1.0 if right else 0.0
        if not right and rng.random() < 0.3:
            done[s.turn] = True
        s.number[s.turn] = rng.integers(3)
        s.turn = (s.turn + 1) % 3
        for _ in range(2):
            if done[s.turn]:
                s.turn = (s.turn + 1) % 3

    def acts(s, agent, p):
        return agent == s.turn

    def observe(s, agent, obs, p):
        obs[s.number[agent]] = 1.0
        obs[3] = 1.0


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
@pytest.mark.parametrize("id", ["ConnectFourDuel-v0", "GuessInTurn-v0"])
def test_by_turns_transitions_and_advantages_are_those_of_each_agents_own_sequence(id: str, mode: Any) -> None:
    """A plain loop keeps what each agent saw and did until its results come, over the ends of two rollouts."""
    gamma, lam, steps = 0.9, 0.8, 15
    config = PPOConfig(**{**CONFIG, "rollout_steps": steps, "gamma": gamma, "lam": lam, "learning_rate": 0.0})
    with vecenv.make(id, 4, autoreset=mode) as envs, vecenv.make(id, 4, autoreset=mode) as twin:
        trainer = PPO(envs, config, seed=3)
        rows, sent, rollouts = trainer.collector.num_envs, [], []
        send, advantages = trainer.collector.send, trainer._advantages

        def note(group: int, actions: Any) -> None:
            sent.append(np.array(actions))
            send(group, actions)

        def spied() -> Any:
            found = advantages()
            columns = (trainer.buffer.obs, trainer.buffer.actions, trainer.buffer.reward, trainer.buffer.valid)
            rollouts.append([np.array(column) for column in columns] + [found[0]])
            return found

        trainer.collector.send, trainer._advantages = note, spied  # type: ignore[method-assign]
        trainer.learn(2 * steps * rows)

        def values(obs: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return trainer.network(torch.from_numpy(obs))[1].numpy()

        obs, _ = twin.reset(seed=3)
        seen = obs.reshape(rows, *obs.shape[2:]).copy()
        did: list[Any] = [None] * rows
        told: list[list[Any]] = [[] for _ in range(rows)]
        for moment, actions in enumerate(sent):
            acts = twin.acts.reshape(-1)
            for row in np.flatnonzero(acts):
                did[row] = seen[row].copy(), actions[row]
            step = twin.step(actions.reshape(4, -1))
            flat = [np.reshape(column, (rows, *np.shape(column)[2:])) for column in
                    (step.valid, step.reward, step.terminated, step.truncated, step.next_obs, step.obs)]  # fmt: skip
            for row in np.flatnonzero(flat[0]):
                told[row].append([moment, *did[row], *(column[row] for column in flat[1:5])])
                did[row] = None
            now = twin.acts.reshape(-1)
            seen[now] = flat[5][now]
            for row in np.flatnonzero(step.done.repeat(rows // 4)):
                did[row] = None
            if moment % steps == steps - 1:
                _compare(rollouts[moment // steps], told, seen, values, gamma, lam, moment - steps + 1)
                told = [[] for _ in range(rows)]
        assert sum(len(each) for each in told) == 0


def _compare(rollout: Any, told: Any, seen: Any, values: Any, gamma: float, lam: float, first: int) -> None:
    obs, actions, reward, valid, found = rollout
    assert valid.sum() == sum(len(each) for each in told) > 20
    last = values(seen)
    for row, each in enumerate(told):
        ahead, after = 0.0, last[row]
        for moment, saw, action, paid, terminated, truncated, ending, *_ in reversed(each):
            at = moment - first, row
            assert valid[at]
            assert np.array_equal(obs[at], saw)
            assert actions[at] == action
            assert reward[at] == np.float32(paid)
            (value,) = values(saw[None])
            follows = 0.0 if terminated else values(ending[None])[0] if truncated else after
            ahead = paid + gamma * follows - value + (0.0 if terminated or truncated else gamma * lam * ahead)
            assert np.isclose(found[at], ahead, atol=1e-4)
            after = value


def test_agents_that_act_by_turns_learn_a_shared_policy() -> None:
    with vecenv.make("GuessInTurn-v0", 8, autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(**CONFIG), seed=0).learn(24_000)
    result = vecenv.evaluate(trainer.policy, "GuessInTurn-v0", episodes=10)
    assert result.table[0].mean > 27, "30 if all guesses are right, at random less than 12"


def test_masks_in_observations_are_obeyed() -> None:
    """PettingZoo's classics have them there; an action that is not allowed ends the game with a reward of -1."""
    name = "pettingzoo:classic.tictactoe_v3"
    with vecenv.make(name, 4, engine="sync", autoreset="same-step") as envs:
        trainer = PPO(
            envs, PPOConfig(**{**CONFIG, "rollout_steps": 16}, mask="action_mask", normalize_obs=True), seed=0
        )
        trainer.learn(16 * 8 * 4)
        seen = trainer.buffer.extras["mask"][trainer.buffer.valid]
        taken = trainer.buffer.actions[trainer.buffer.valid].reshape(-1)
    assert seen[np.arange(len(taken)), taken].all()
    assert not seen.all()
    policy = pickle.loads(pickle.dumps(trainer.policy))
    assert (policy.mask_name, policy.mask_key) == (None, "action_mask")
    obs = {"observation": np.zeros((9, 3, 3, 2), np.int8), "action_mask": np.eye(9, dtype=np.int8)}
    assert policy(obs).tolist() == list(range(9))
    vecenv.evaluate(policy, name, episodes=2, engine="sync")


def test_training_by_turns_goes_on_where_it_stopped(tmp_path: Any) -> None:
    config = PPOConfig(**{**CONFIG, "rollout_steps": 15, "num_envs": 4}, normalize_obs=True, normalize_reward=True)
    whole = PPO("GuessInTurn-v0", config, seed=0).learn(2 * 15 * 12)
    first = PPO("GuessInTurn-v0", config, seed=0).learn(15 * 12)
    assert first.collector.envs[0].waits.any(), "somebody waits where it stops"
    first.save(tmp_path / "run")
    again = PPO.load(tmp_path / "run").learn(2 * 15 * 12)
    for ours, theirs in zip(again.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for trainer in (whole, first, again):
        trainer.close()


@pytest.mark.parametrize(
    ("trainer", "settings", "words"),
    [(PPO, {"lstm": 8}, "lstm"), (PPO, {"central_value": True}, "central value"), (DQN, {}, "DQN")],
)
def test_what_needs_results_in_the_next_step_refuses_turns(trainer: Any, settings: Any, words: str) -> None:
    with vecenv.make("ConnectFourDuel-v0", 4, autoreset="same-step") as envs:
        with pytest.raises(UnsupportedError, match=f"act by turns.*{words}"):
            trainer(envs, trainer.Config(**settings)).learn(500)
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
