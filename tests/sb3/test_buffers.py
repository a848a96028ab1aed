"""Training with our buffers gives the weights that Stable-Baselines3's own give."""

import io
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import vecenv.sb3 as ours


class Little(gymnasium.Env):
    """Any observation and action space; episodes of 5 to 9 steps that end in both ways."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space, self.time, self.length = observation, action, 0, 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time, self.length = 0, int(self.np_random.integers(5, 10))
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        ended = self.time == self.length
        return (
            self.observation_space.sample(),
            float(np.sum(action)),
            ended and self.length % 2 == 0,
            ended and self.length % 2 == 1,
            {},
        )


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


BOX = spaces.Box(-1, 1, (3,), np.float32)
DICT = spaces.Dict({"a": spaces.Box(-1, 1, (2, 2), np.float32), "b": spaces.Discrete(3)})
OBSERVATIONS = {"box": BOX, "dict": DICT, "discrete": spaces.Discrete(4)}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "multi": spaces.MultiDiscrete([2, 3]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
}


def envs(observation, action, count=3, normalize=False):
    made = DummyVecEnv([lambda: Little(observation, action) for _ in range(count)])
    return VecNormalize(made) if normalize else made


def weights(algorithm, observation, action, steps, normalize=False, **kwargs):
    policy = "MultiInputPolicy" if isinstance(observation, spaces.Dict) else "MlpPolicy"
    model = algorithm(policy, envs(observation, action, normalize=normalize), seed=3, device="cpu", **kwargs)
    model.learn(steps)
    return model.policy.state_dict()


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_ppo_ends_with_the_same_weights(observation, action):
    settings = {
        "n_steps": 16,
        "batch_size": 12,
        "n_epochs": 2,
        "observation": OBSERVATIONS[observation],
        "action": ACTIONS[action],
    }
    usual = weights(PPO, steps=96, **settings)
    assert_same(usual, weights(PPO, steps=96, rollout_buffer_class=ours.RolloutBuffer, **settings))


def test_a2c_ends_with_the_same_weights():
    usual = weights(A2C, BOX, ACTIONS["discrete"], 60)
    assert_same(usual, weights(A2C, BOX, ACTIONS["discrete"], 60, rollout_buffer_class=ours.RolloutBuffer))


@pytest.mark.parametrize(("observation", "normalize"), [*((name, False) for name in OBSERVATIONS), ("box", True)])
def test_sac_ends_with_the_same_weights(observation, normalize):
    settings = {"learning_starts": 20, "batch_size": 8, "buffer_size": 60, "train_freq": 1, "gradient_steps": 1,
                "policy_kwargs": {"net_arch": [16]}, "normalize": normalize}  # fmt: skip
    usual = weights(SAC, OBSERVATIONS[observation], ACTIONS["box"], 120, **settings)
    own = weights(
        SAC, OBSERVATIONS[observation], ACTIONS["box"], 120, replay_buffer_class=ours.ReplayBuffer, **settings
    )
    assert_same(usual, own)


def test_dqn_ends_with_the_same_weights():
    settings = {"learning_starts": 20, "batch_size": 8, "buffer_size": 60, "train_freq": 1}
    usual = weights(DQN, BOX, ACTIONS["discrete"], 120, **settings)
    assert_same(usual, weights(DQN, BOX, ACTIONS["discrete"], 120, replay_buffer_class=ours.ReplayBuffer, **settings))


def test_n_steps_are_those_of_their_buffer():
    settings = {
        "learning_starts": 20,
        "batch_size": 8,
        "buffer_size": 60,
        "train_freq": 1,
        "policy_kwargs": {"net_arch": [16]},
    }
    usual = weights(SAC, BOX, ACTIONS["box"], 120, n_steps=3, **settings)
    kwargs = {"replay_buffer_class": ours.ReplayBuffer, "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}}
    own = weights(SAC, BOX, ACTIONS["box"], 120, **kwargs, **settings)
    for name in usual:  # ours adds rewards up in float64
        torch.testing.assert_close(own[name], usual[name], rtol=1e-4, atol=1e-5)


def test_each_observation_once_gives_the_same_samples_where_episodes_are_truncated():
    buffers = [
        theirs.ReplayBuffer(40, BOX, ACTIONS["box"], "cpu", 2),
        ours.ReplayBuffer(40, BOX, ACTIONS["box"], "cpu", 2, optimize_memory_usage=True),
    ]
    generator, obs = np.random.default_rng(0), np.zeros((2, 3), np.float32)
    for moment in range(1, 55):
        after = generator.normal(size=(2, 3)).astype(np.float32)
        done = np.full(2, moment % 20 == 0)
        infos = [{"TimeLimit.truncated": True}, {"TimeLimit.truncated": False}]
        for buffer in buffers:
            buffer.add(obs.copy(), after.copy(), np.ones((2, 2), np.float32) * moment, np.full(2, moment), done, infos)
        obs = generator.normal(size=(2, 3)).astype(np.float32) if done.any() else after
    samples = []
    for buffer in buffers:
        np.random.seed(1)
        samples.append(buffer.sample(64))
    for first, second in zip(*samples, strict=True):
        if first is not None:
            assert torch.equal(first, second)


def test_buffers_can_be_pickled():
    buffer = ours.ReplayBuffer(40, BOX, ACTIONS["box"], "cpu", 2)
    buffer.add(np.zeros((2, 3)), np.ones((2, 3)), np.zeros((2, 2)), np.ones(2), np.zeros(2), [{}, {}])
    again = pickle.load(io.BytesIO(pickle.dumps(buffer)))
    assert isinstance(again, theirs.ReplayBuffer)
    assert again.size() == 1
    assert again.sample(3).observations.shape == (3, 3)


def test_a_second_learn_cuts_the_episode_of_the_first():
    """SB3 marks the last transition as done when it goes on with a reset; each observation is stored once."""
    kwargs = {"learning_starts": 20, "batch_size": 8, "buffer_size": 60, "optimize_memory_usage": True}
    kwargs |= {
        "policy_kwargs": {"net_arch": [16]},
        "replay_buffer_class": ours.ReplayBuffer,
        "device": "cpu",
        "seed": 1,
    }
    walk = gymnasium.wrappers.TimeLimit(gymnasium.make("Pendulum-v1"), 12)
    model = SAC("MlpPolicy", walk, **kwargs, replay_buffer_kwargs={"handle_timeout_termination": True})
    model.learn(30)
    with pytest.warns(UserWarning, match="last trajectory"):
        model.learn(20)
    buffer = model.replay_buffer
    assert buffer.dones[29].all()
    assert not buffer.dones[28].any()
    drawn = buffer.ours.gather(np.arange(50))
    angle = np.arctan2(drawn.obs[:, 1], drawn.obs[:, 0]) + 0.05 * drawn.next_obs[:, 2]
    np.testing.assert_allclose(np.cos(angle), drawn.next_obs[:, 0], atol=1e-5)  # float32 observations
