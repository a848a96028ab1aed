"""Envs whose results are tensors on a device: PPO takes them as they are, and copies nothing but finished returns."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import vecenv
from tests.trainers.test_devices import OneDevice, no_data  # noqa: F401  # a fixture
from tests.trainers.test_trainers import SMALL, vector
from vecenv.buffers import gae
from vecenv.engines import Device
from vecenv.errors import ConfigError
from vecenv.trainers import DQN, PPO, DQNConfig, PPOConfig
from vecenv.trainers._device_rollout import advantages
from vecenv.trainers._progress import Clock


class Line(gymnasium.vector.VectorEnv):
    """Walk along a line, as torch operations: the reward is the place, episodes are cut after some steps."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    limit = 5

    def __init__(self, count, device="cpu", discrete=True, mode=AutoresetMode.SAME_STEP):
        self.num_envs, self.device, self.discrete = count, torch.device(device), discrete
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(-100, 100, (2,), np.float32)
        self.single_action_space = spaces.Discrete(3, start=-1) if discrete else spaces.Box(-1, 1, (1,))
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)

    def reset(self, *, seed=None, options=None):
        self.place = torch.linspace(-1, 1, self.num_envs, device=self.device)
        self.time = torch.arange(self.num_envs, device=self.device) % 3
        return self.observe(), {}

    def observe(self):
        return torch.stack([self.place, self.time.float()], -1)

    def step(self, actions):
        assert actions.device == self.device
        self.place = self.place + actions.reshape(self.num_envs).float()
        self.time = self.time + 1
        reward, final = self.place.clone(), self.observe()
        terminated, truncated = self.place > 4, self.time >= self.limit
        done = terminated | truncated
        self.place, self.time = self.place * ~done, self.time * ~done
        return self.observe(), reward, terminated, truncated & ~terminated, {"final_obs": final}


def test_advantages_are_those_of_the_native_function():
    generator = np.random.default_rng(0)
    reward, value, final = generator.normal(size=(3, 40, 7)).astype(np.float32)
    terminated, truncated = generator.random((40, 7)) < 0.1, generator.random((40, 7)) < 0.1
    last = generator.normal(size=7).astype(np.float32)
    expected, _ = gae(reward, value, last, terminated, truncated, gamma=0.97, lam=0.9, final_value=final)
    tensors = [torch.from_numpy(part) for part in (reward, value, last, terminated, truncated, final)]
    torch.testing.assert_close(advantages(*tensors, 0.97, 0.9), torch.from_numpy(expected), rtol=1e-5, atol=1e-5)


def test_the_rollout_is_what_the_env_did():
    trainer = PPO(Line(4), PPOConfig(**SMALL), seed=0)
    trainer._begin(0)
    trainer._collect(Clock())
    columns = trainer._columns([])
    twin, places = Line(4), []
    obs, _ = twin.reset()
    for time in range(16):
        torch.testing.assert_close(columns["obs"][time], obs)
        places.append(twin.time.clone())
        obs, *_ = twin.step(columns["actions"][time] - 1)
    with torch.no_grad():
        outputs, value, _ = trainer.network(columns["obs"].flatten(0, 1))
        log_prob, _ = trainer.network.head.judge(outputs, None, columns["actions"].flatten(0, 1))
    torch.testing.assert_close(columns["log_prob"].flatten(), log_prob, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(columns["value"].flatten(), value, rtol=1e-4, atol=1e-5)
    ended = sum(int((time == 4).sum()) for time in places)
    assert trainer.collector.episodes.ended >= ended > 0
    assert max(length for _, length in trainer.collector.episodes.recent) <= 5


@pytest.mark.parametrize("discrete", [True, False])
def test_ppo_learns_to_walk_and_continues_from_a_file(discrete, tmp_path):
    config = PPOConfig(num_envs=32, rollout_steps=16, minibatch=128, learning_rate=3e-3, hidden=(16,))
    first, last = [], []
    trainer = PPO(Line(32, discrete=discrete), config, seed=0)
    trainer.learn(16_384, lambda progress: (first if progress.steps < 2_000 else last).append(progress.mean_return))
    assert last[-1] > first[0] + 3
    trainer.save(tmp_path / "line.npz")
    again = PPO.load(tmp_path / "line.npz", Line(32, discrete=discrete))
    assert torch.equal(vector(again), vector(trainer))
    assert again.learn(17_000).steps >= 17_000
    action = trainer.policy(np.array([0.0, 1.0], np.float32))
    assert float(np.ravel(action)[0]) > 0


def test_nothing_but_finished_returns_and_losses_comes_to_the_host(no_data):  # noqa: F811  # the fixture
    read = no_data
    trainer = PPO(Line(4, "meta", discrete=False), PPOConfig(**SMALL), seed=0)
    assert (trainer.device.type, trainer.act_device.type) == ("meta", "meta")
    with OneDevice():
        trainer.learn(128)
    assert trainer.updates > 0
    assert set(read) == {(), (3, 16, 4)}


def test_what_does_not_fit_envs_on_a_device_is_refused():
    for call, message in (
        (lambda: PPO(Line(4), PPOConfig(**SMALL, normalize_obs=True)), "compute statistics on the host"),
        (lambda: PPO(Line(4), PPOConfig(**SMALL, lstm=4)), "networks with a memory"),
        (
            lambda: PPO(Line(4), PPOConfig(**SMALL), device=torch.device("meta")),
            "the envs are on cpu, so device must be that too",
        ),
        (lambda: PPO([Line(4), Line(4)], PPOConfig(**SMALL)), "there can be one vector env on a device, got 2"),
        (lambda: PPO(Line(4, mode=AutoresetMode.NEXT_STEP), PPOConfig(**SMALL)), "same-step"),
        (lambda: PPO(Line(4), PPOConfig(**SMALL, mask="action_mask")).learn(1), "have no 'action_mask'"),
        (lambda: DQN(Line(4)), r"use PPO for envs on a device, or make them with engine=.*results=\"numpy\""),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    assert vecenv.make("CartPole-v1", 1).num_envs == 1


@pytest.mark.slow
def test_dqn_trains_on_a_device_whose_results_are_arrays():
    config = DQNConfig(num_envs=4, warmup=50, hidden=(16,))
    trainers = [
        DQN(vecenv.make("CartPole-v1", 4, engine=engine, autoreset="same-step"), config, seed=0).learn(100)
        for engine in (Device(results="numpy"), "compiled")
    ]
    assert trainers[0].updates > 0
    assert torch.equal(trainers[0].flat.vector, trainers[1].flat.vector)
