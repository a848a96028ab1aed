"""Several agents in RLlib: the transitions are those of RLlib's own runner and vector env, from the same seed."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo.utils.conversions import parallel_to_aec
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.rllib.policy.policy import PolicySpec
from ray.tune.registry import register_env

import vecenv
from tests.agents.test_group_ppo import Pairs
from tests.rllib.rllib_helpers import configured, ppo, runner_of
from tests.rllib.test_same_as_rllib import episodes_of
from vecenv.errors import ConfigError, EnvError, UnsupportedError

AGENTS = 3


class EndingPairs(Pairs):
    """No agent dies in the last step: RLlib's own envs go on without agents where some die as others are cut off."""

    def step(self, actions):
        if self.time + 1 < self.limit:
            return super().step(actions)
        return super().step({name: self.number[name] for name in self.agents})


class Alike(EndingPairs):
    """All agents have the same spaces."""

    def observation_space(self, agent):
        return super().observation_space("a")

    def action_space(self, agent):
        return super().action_space("a")


class Frames(Pairs):
    """Agents "a" see four frames of bytes, agents "b" a number."""

    def observation_space(self, agent):
        return Box(0, 255, (4, 42, 42), np.uint8) if agent[0] == "a" else Discrete(5)

    def _show(self, names):
        self.number = {name: int(self.rng.integers(self.action_space(name).n)) for name in self.possible_agents}
        return {name: self.rng.integers(5) if name[0] == "b" else self._frames() for name in names}

    def _frames(self):
        return self.rng.integers(0, 256, (4, 42, 42), np.uint8)


class LargeFrames(Frames):
    def observation_space(self, agent):
        return Box(0, 255, (210, 160, 3), np.uint8) if agent[0] == "a" else Discrete(5)

    def _frames(self):
        return np.zeros((210, 160, 3), np.uint8)


class FailsAtFirst(Pairs):
    def reset(self, seed=None, options=None):
        raise OSError("the simulator does not start")


def by_turns():
    return parallel_to_aec(Alike())


def stock(env, policies, of_agent):
    """RLlib's own runner and vector env."""
    register_env("pairs", lambda config: ParallelPettingZooEnv(env()))
    config = ppo().environment("pairs", disable_env_checking=True)
    config.env_runners(num_envs_per_env_runner=4, num_env_runners=0)
    config.multi_agent(policies=policies, policy_mapping_fn=lambda agent, *_, **__: of_agent(agent))
    return MultiAgentEnvRunner(config=config, worker_index=0)


def transitions(episodes):
    """Of single-agent episodes, as a sorted list."""
    found = []
    for episode in episodes:
        obs, rewards = episode.get_observations(), episode.get_rewards()
        for step in range(len(episode)):
            last = step == len(episode) - 1
            flags = (episode.is_terminated and last, episode.is_truncated and last)
            action, reward = int(episode.get_actions(step)), float(rewards[step])
            found.append((*map(float, obs[step]), action, reward, *map(float, obs[step + 1]), *flags))
    return sorted(found)


def of_agents(samples):
    return transitions(one for episode in samples for one in episode.agent_episodes.values())


def without_mark(rows):
    """Rows in which what is truncated is not terminated: RLlib has it both ways as soon as all agents are done."""
    return sorted((*row[:-2], row[-2] and not row[-1], row[-1]) for row in rows)


def test_vec_sees_what_rllibs_own_vector_env_sees():
    ours = runner_of(configured(EndingPairs, 4, "vec", engine="sync", seeding="gymnasium"))
    theirs = stock(EndingPairs, {"a", "b"}, lambda agent: agent[0])
    ours.module.set_state(theirs.module.get_state())
    ended = 0
    for _ in range(3):
        one, other = (runner.sample(num_timesteps=120, explore=False) for runner in (ours, theirs))
        assert of_agents(one) == of_agents(other)
        assert len(of_agents(one)) > 120, "several agents"
        ended += sum(episode.is_done for episode in one)
        assert sorted(map(len, one)) == sorted(map(len, other))
    assert ended > 5
    assert ours.get_metrics()["num_env_steps_sampled"].peek() == theirs.get_metrics()["num_env_steps_sampled"].peek()
    ours.stop()
    theirs.stop()


def test_native_sees_what_rllibs_own_runner_sees():
    ours = runner_of(configured(Alike, 4, "native", engine="sync", seeding="gymnasium"))
    theirs = stock(Alike, {"agents"}, lambda agent: "agents")
    ours.module.set_state(theirs.module["agents"].get_state())
    for _ in range(3):
        (rollout,) = ours.sample(num_timesteps=120, explore=False)
        other = theirs.sample(num_timesteps=120, explore=False)
        assert not rollout.valid.all(), "agents die"
        assert without_mark(transitions(episodes_of(rollout))) == without_mark(of_agents(other))
        assert rollout.env_steps() == sum(map(len, other))
        assert rollout.agent_steps() == len(of_agents(other)) > rollout.env_steps()
    mine, his = ours.get_metrics(), theirs.get_metrics()
    for name in ("num_env_steps_sampled", "num_episodes"):
        assert mine[name].peek() == his[name].peek(), name
    for name in ("episode_return_mean", "episode_len_mean", "episode_return_max"):
        assert mine[name].peek() == pytest.approx(his[name].peek()), name
    ours.stop()
    theirs.stop()


@pytest.mark.parametrize("mode", ["native", "vec"])
def test_an_iteration_of_ppo(mode):
    env = "SimpleSpread-v0" if mode == "native" else EndingPairs
    options = {} if mode == "native" else {"engine": "sync"}
    algorithm = configured(env, 4, mode, train_batch=128, minibatch=32, **options).build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert result["env_runners"]["num_env_steps_sampled"] >= 128
    learnt = {"default_policy"} if mode == "native" else {"a", "b"}
    assert learnt <= set(result["learners"])


def test_pictures_and_numbers_of_agents_reach_the_networks_as_floats():
    runner = runner_of(configured(Frames, 4, "vec", engine="sync"))
    plain = vecenv.make(Frames, 4, engine="sync", seeding="spawn")
    seen, raw = runner.env.reset(seed=3)[0], plain.reset(seed=3)[0]
    rng = np.random.default_rng(0)
    for _ in range(12):
        acts = np.concatenate(plain.slots.flat(plain.acts), axis=1)
        for row in range(4):
            for slot, name in enumerate(plain.agents):
                if acts[row, slot]:
                    group = raw[name[0]][row, slot % 2]
                    expected = np.eye(5)[group] if name[0] == "b" else np.moveaxis(group, 0, -1) / np.float32(255)
                    np.testing.assert_array_equal(seen[row][name], expected.astype(np.float32))
                    assert seen[row][name] in runner.env.single_observation_spaces[name]
        actions = [
            {name: rng.integers(2) for slot, name in enumerate(plain.agents) if acts[row, slot]} for row in range(4)
        ]
        seen, raw = runner.env.step(actions)[0], plain.step(actions).obs
    runner.stop()
    plain.close()


def test_networks_of_ones_own_get_the_observations_of_agents_as_they_are():
    own = {name: PolicySpec(observation_space=Frames().observation_space(name)) for name in "ab"}
    config = ppo().multi_agent(policies=own, policy_mapping_fn=lambda agent, *_, **__: agent[0])
    creator = configured(Frames, 2, "vec", config, engine="sync").env_config["creator"]
    assert not creator.floats


def test_every_argument_of_configure_reaches_several_agents_in_vec():
    config = configured(EndingPairs, 4, "vec", engine="sync", train_batch=32, batch_units="packed", batch_check=False)
    assert config.train_batch_size_per_learner == 128
    assert not config._validate_config
    runner = runner_of(configured(EndingPairs, 4, "vec", engine="sync", normalize_observations=True))
    runner.sample(num_timesteps=40, random_actions=True)
    (statistics,) = runner._env_to_module.get_state().values()
    assert statistics
    runner.stop()


def test_mixed_ends_end_the_episode():
    with vecenv.make(Pairs, 8, engine="sync", env_kwargs={"limit": 3}) as envs:
        vector = vecenv.rllib.AgentVectorEnv(envs)
        observations, _ = vector.reset(seed=0)
        rng, mixed = np.random.default_rng(0), 0
        for _ in range(60):
            actions = [{name: rng.integers(2) for name in seen if name in envs.agents} for seen in observations]
            for row, acts in enumerate(np.concatenate(envs.slots.flat(envs.acts), axis=1)):
                names = [name for name, act in zip(envs.agents, acts, strict=True) if act]
                actions[row] = {name: actions[row][name] for name in names}
            observations, _, terminated, truncated, _ = vector.step(actions)
            for ends, cuts in zip(terminated, truncated, strict=True):
                own = [name for name in ends if name != "__all__"]
                if any(ends[name] for name in own) and any(cuts[name] for name in own):
                    mixed += 1
                    assert cuts["__all__"]
                    assert not ends["__all__"]
        assert mixed
        vector.close()


def test_what_agents_cannot_have_is_refused():
    with pytest.raises(ConfigError, match="mode='native' has one policy for all agents; these envs have the groups"):
        configured(Pairs, 2, "native")
    with pytest.raises(ConfigError, match="packed_vec' is for envs with one agent"):
        configured(Alike, 2, "packed_vec")
    several = ppo().multi_agent(policies={"x"}, policy_mapping_fn=lambda *_, **__: "x")
    with pytest.raises(ConfigError, match=r"leave multi_agent\(\) out"):
        configured(Alike, 2, "native", config=several)
    with pytest.raises(ConfigError, match="act by turns"):
        configured(by_turns, 2, "native", engine="sync")
    with pytest.raises(ConfigError, match="act by turns"):
        configured("ConnectFourDuel-v0", 2, "native")
    with pytest.raises(ConfigError, match="callbacks per episode of several agents"):
        configured(Alike, 2, "native", config=ppo().callbacks(on_episode_end=print))
    with pytest.raises(ConfigError, match="recurrent modules of several agents"):
        configured(Alike, 2, "native", config=ppo().rl_module(model_config={"use_lstm": True}))
    with pytest.raises(UnsupportedError, match="possible_agents"):
        configured(Alike, 2, "vec", engine="sync", slots=3)
    configured(Alike, 2, "native", engine="sync", slots=3)
    with pytest.raises(ConfigError, match=r"has several agents: use configure\(config, env, num_envs\)"):
        runner_of(
            ppo()
            .environment(vecenv.rllib.register("SimpleSpread-v0"))
            .env_runners(num_env_runners=0, gym_env_vectorize_mode="vector_entry_point")
        )
    with pytest.raises(ConfigError, match="no filters for observations of shape"):
        configured(LargeFrames, 2, "vec", engine="sync")
    with pytest.raises(EnvError, match="the simulator does not start"):
        configured(FailsAtFirst, 2, "vec", engine="sync")
