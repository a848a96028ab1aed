"""PPO with a policy per group, and with a central value function, against plain loops."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from pettingzoo.utils import ParallelEnv

import vecenv
from vecenv.errors import ConfigError, ConfigTypeError, UnsupportedError
from vecenv.trainers import PPO, GroupPPO, PPOConfig

CONFIG = {"rollout_steps": 24, "minibatch": 64, "epochs": 3, "hidden": (16,), "learning_rate": 5e-3, "torch_threads": 1}


class Pairs(ParallelEnv):
    """Two agents "a" are to name a number of three, one agent "b" a number of two; who is wrong dies by chance.

    Observations of the living are never zero. With `told`, agent b_0 gets nothing but what the first agent a was shown.
    """

    metadata = {"name": "pairs"}
    render_mode = None

    def __init__(self, told: bool = False, limit: int = 10) -> None:
        self.possible_agents = ["a_0", "a_1", "b_0"]
        self.told, self.limit = told, limit
        self.agents: list[str] = []
        self.rng = np.random.default_rng(0)

    def observation_space(self, agent: str) -> Any:
        return Box(0.0, 1.0, (4,) if agent[0] == "a" else (3,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(3 if agent[0] == "a" else 2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        return self._show(self.agents), {name: {} for name in self.agents}

    def _show(self, names: list[str]) -> dict[str, np.ndarray]:
        self.number = {name: int(self.rng.integers(self.action_space(name).n)) for name in self.possible_agents}
        shown = {}
        for name in names:
            shown[name] = np.zeros(self.observation_space(name).shape, np.float32)
            shown[name][-1] = 1.0
            if not self.told or name[0] == "a":
                shown[name][self.number[name]] = 1.0
        return shown

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        self.time += 1
        acted = list(self.agents)
        right = {name: int(actions[name]) == self.number[name] for name in acted}
        rewards = {name: float(right[name]) for name in acted}
        if self.told and "b_0" in rewards:
            rewards["b_0"] = float(self.number["a_0"])
        dies = {name: name[0] == "a" and not right[name] and self.rng.random() < 0.2 for name in acted}
        late = {name: self.time >= self.limit and not dies[name] for name in acted}
        self.agents = [name for name in acted if not dies[name] and not late[name]]
        return self._show(acted), rewards, dies, late, {name: {} for name in acted}


def make(count: int = 4, **kwargs: Any) -> Any:
    return vecenv.make(Pairs, count, engine="sync", autoreset="same-step", **kwargs)


def weights(network: Any) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in network.parameters()])


def test_one_group_learns_as_ppo_does() -> None:
    """The same weights, bit for bit, as PPO with one policy for all agents."""
    found = []
    for cls in (PPO, GroupPPO):
        with make(pad=True) as envs:
            trainer: Any = cls(envs, PPOConfig(**CONFIG), seed=3)
            trainer.learn(3 * 24 * 12)
            found.append(weights(trainer.network if cls is PPO else trainer.network["agents"]))
            assert trainer.steps == 3 * 24 * 12
    assert torch.equal(*found)


class Fails(Pairs):
    """Raises in the third step of every second episode; the others have ten steps."""

    episodes = 0

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        type(self).episodes += 1
        self.fails = type(self).episodes % 2 == 0
        return super().reset(seed, options)

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        if self.fails and self.time == 2:
            raise TimeoutError("the server is slow")
        self.time += 1
        names = list(self.agents)
        late = dict.fromkeys(names, self.time >= 10)
        self.agents = [] if self.time >= 10 else names
        ones = dict.fromkeys(names, 1.0)
        return self._show(names), ones, dict.fromkeys(names, False), late, {name: {} for name in names}


@pytest.mark.parametrize("cls", [PPO, GroupPPO])
def test_episodes_that_a_fault_ended_do_not_count_in_the_mean_return(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecenv._batch.faults._FIRST_PAUSE", 0.0)
    monkeypatch.setattr("vecenv._batch.faults.RESTARTS", 1000)
    monkeypatch.setattr(Fails, "episodes", 0)
    with vecenv.make(Fails, 1, engine="sync", autoreset="same-step", on_error="restart", pad=cls is PPO) as envs:
        trainer = cls(envs, PPOConfig(**CONFIG), seed=0).learn(24 * 12)
        episodes = trainer.collector.episodes
        assert episodes.skipped >= 3
        assert set(episodes.recent) == {(30.0 if cls is GroupPPO else 10.0, 10)}


def test_every_group_stores_what_its_agents_saw_and_did() -> None:
    with make() as envs, make() as twin:
        trainer = GroupPPO(envs, PPOConfig(**CONFIG), seed=1)
        assert list(trainer.members) == ["a", "b"]
        kept: dict[str, Any] = {}
        update = trainer._update

        def spied(progress: float) -> None:
            kept.update({name: copy.deepcopy(member.buffer) for name, member in trainer.members.items()})
            update(progress)

        trainer._update = spied  # type: ignore[method-assign]
        trainer.learn(24 * 12)
        obs, _ = twin.reset(seed=1)
        dead = 0
        for moment in range(24):
            step = twin.step({name: kept[name].actions[moment].reshape(4, -1) for name in kept})
            for name, buffer in kept.items():
                assert np.array_equal(buffer.obs[moment], obs[name].reshape(len(buffer.reward[0]), -1))
                assert np.array_equal(buffer.valid[moment], step.valid[name].reshape(-1))
                assert np.array_equal(buffer.reward[moment], step.reward[name].reshape(-1).astype(np.float32))
                assert np.array_equal(buffer.terminated[moment], step.terminated[name].reshape(-1))
                assert np.array_equal(buffer.truncated[moment], step.truncated[name].reshape(-1))
            obs, dead = step.obs, dead + int((~step.valid["a"]).sum())
        assert dead, "no agent died"
        assert trainer.collector.episodes.ended == 8


def test_updates_of_a_group_see_transitions_of_its_living_agents_alone() -> None:
    with make() as envs:
        trainer = GroupPPO(envs, PPOConfig(**CONFIG, central_value=True), seed=1)
        counts = []
        for member in trainer.members.values():
            rows = member._rows

            def spied(columns: Any, size: int, rows: Any = rows, member: Any = member) -> Any:
                counts.append((int(member.buffer.valid.sum()), member.buffer.valid.size))
                for batch in rows(columns, size):
                    assert (batch["obs"][:, -1] == 1.0).all(), "a dead agent's row is in the update"
                    own = batch["everyone"][member.team.index(member)]
                    mine = own[torch.arange(len(own)), batch["agents"]]
                    assert torch.equal(mine, batch["obs"]), "what everyone saw belongs to the same moment"
                    yield batch

            member._rows = spied  # type: ignore[method-assign]
        trainer.learn(24 * 12)
    assert any(valid < size for valid, size in counts)


@pytest.mark.parametrize("groups", [False, True])
def test_central_values_and_advantages_are_those_of_a_plain_loop(groups: bool) -> None:
    """Values by a network that is given all observations by hand; truncated episodes go on from their true end."""
    config = PPOConfig(**{**CONFIG, "gamma": 0.9, "lam": 0.8}, central_value=True)
    with make(pad=not groups) as envs, make(pad=not groups) as twin:
        trainer: Any = (GroupPPO if groups else PPO)(envs, config, seed=1)
        members = trainer.members if groups else {"agents": trainer}
        networks = {name: copy.deepcopy(member.network) for name, member in members.items()}
        found: dict[str, Any] = {}
        for name, member in members.items():

            def spied(name: str = name, member: Any = member, advantages: Any = member._advantages) -> Any:
                found[name] = member.buffer.actions.copy(), member.buffer.extras["value"].copy(), *advantages()
                return found[name][2:]

            member._advantages = spied
        trainer.learn(24 * 12)

        def split(by_group: Any) -> dict[str, Any]:
            return by_group if groups else {"agents": by_group}

        def values(obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            everyone = {}
            for name, network in networks.items():
                slots = obs[name].shape[1]
                joint = np.concatenate([seen.reshape(4, -1) for seen in obs.values()], axis=1)
                inputs = [
                    np.concatenate([joint[env], np.eye(slots)[slot]]) for env in range(4) for slot in range(slots)
                ]
                with torch.no_grad():
                    stacked = network.central(torch.tensor(np.array(inputs), dtype=torch.float32))[0]
                    everyone[name] = network.critic(stacked).squeeze(-1).numpy().reshape(4, slots)
            return everyone

        obs, _ = twin.reset(seed=1)
        told, at = [], []
        for moment in range(24):
            at.append(values(split(obs)))
            actions = {name: found[name][0][moment].reshape(4, -1) for name in networks}
            step = twin.step(actions if groups else actions["agents"])
            told.append((step, values(split(step.next_obs))))
            obs = step.obs
        for name in networks:
            assert np.allclose(found[name][1], np.array([each[name].reshape(-1) for each in at]), atol=1e-5)
            ahead, following = np.zeros_like(at[0][name]), values(split(obs))[name]
            for moment in reversed(range(24)):
                step, after = told[moment]
                over = split(step.terminated)[name] | split(step.truncated)[name]
                nothing = split(step.terminated)[name]
                after_value = np.where(nothing, 0.0, np.where(over, after[name], following))
                error = split(step.reward)[name] + 0.9 * after_value - at[moment][name]
                valid = split(step.valid)[name]
                ahead = np.where(valid, error + np.where(over, 0.0, 0.9 * 0.8 * ahead), 0.0)
                ours = found[name][2][moment].reshape(4, -1)
                assert np.allclose(ours[valid], ahead[valid], atol=1e-4), (name, moment)
                following = at[moment][name]


def test_groups_learn_tasks_of_their_own() -> None:
    with make(8) as envs:
        trainer = GroupPPO(envs, PPOConfig(**CONFIG), seed=0)
        trainer.learn(24 * 24 * 40)
        assert set(trainer._losses) >= {"a/policy", "b/value"}
        result = vecenv.evaluate(trainer.policy, Pairs, episodes=10, engine="sync")
    assert result.table[0].mean > 27, "three agents who are always right get 30, at random less than 12"


def test_a_central_value_function_knows_what_others_see() -> None:
    """Agent b is paid for what it cannot see and agent a can: only a central value function predicts that."""
    errors = {}
    for central in (False, True):
        with make(8, env_kwargs={"told": True}) as envs:
            trainer = GroupPPO(envs, PPOConfig(**{**CONFIG, "gamma": 0.0}, central_value=central), seed=0)
            trainer.learn(24 * 24 * 30)
            errors[central] = float(trainer._losses["b/value"])
    assert errors[False] > 0.4, "the variance of one of three numbers is 2/3"
    assert errors[True] < 0.2


def test_a_checkpoint_of_groups_is_read(tmp_path: Any) -> None:
    with make() as envs:
        trainer = GroupPPO(envs, PPOConfig(**CONFIG, central_value=True), seed=0).learn(24 * 12)
        trainer.save(tmp_path / "run")
        again = GroupPPO.load(tmp_path / "run", envs)
        assert (again.steps, again.updates) == (trainer.steps, trainer.updates)
        for name in trainer.network:
            assert torch.equal(weights(again.network[name]), weights(trainer.network[name]))
        seen = np.ones((5, 4), np.float32)
        assert np.array_equal(again.policy["a"](seen), trainer.policy["a"](seen))
        again.learn(24 * 12 * 2)


def test_training_of_a_kernel_goes_on_where_it_stopped(tmp_path: Any) -> None:
    config = PPOConfig(**{**CONFIG, "num_envs": 4})
    whole = PPO("SimpleSpread-v0", config, seed=0).learn(2 * 24 * 12)
    first = PPO("SimpleSpread-v0", config, seed=0).learn(24 * 12)
    first.save(tmp_path / "run")
    again = PPO.load(tmp_path / "run").learn(2 * 24 * 12)
    assert torch.equal(weights(again.network), weights(whole.network))
    for trainer in (whole, first, again):
        trainer.close()


def test_what_groups_cannot_do_is_refused() -> None:
    config = PPOConfig(**CONFIG)
    with make() as envs:
        with pytest.raises(ConfigError, match=r"the groups \['a', 'b'\], which need a policy each: use .*GroupPPO"):
            PPO(envs, config)
        with pytest.raises(ConfigTypeError, match="a dict by group"):
            GroupPPO(envs, config, network=torch.nn.Linear(2, 2))
        with pytest.raises(ConfigError, match="network has the groups"):
            GroupPPO(envs, config, network={"a": torch.nn.Linear(2, 2)})
        with pytest.raises(UnsupportedError, match="cannot be stepped alone"):
            GroupPPO(envs, config).members["a"].learn(100)
        with pytest.raises(ConfigError, match="central_value=True has a network of its own"):
            GroupPPO(envs, PPOConfig(**CONFIG, central_value=True, lstm=8))
    with pytest.raises(ConfigError, match="central_value=True is for envs with several agents"):
        PPO("CartPole-v1", PPOConfig(central_value=True))
    with pytest.raises(ConfigTypeError, match="GroupPPO takes one vector env with several agents"):
        GroupPPO("CartPole-v1", config)
