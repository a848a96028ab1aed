"""skrl 2 takes vector envs of vecenv as they are."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer

import vecenv
from tests.clients.pages import run_page
from vecenv.errors import ConfigError, ConfigTypeError


@pytest.mark.parametrize("engine", ["auto", "sync", "thread", "process", "compiled"])
def test_every_engine_is_detected_and_equal_to_gymnasiums_sync_vector_env(engine):
    envs = wrap_env(vecenv.make("CartPole-v1", 3, engine=engine, autoreset="same-step"), verbose=False)
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    single = [lambda: gymnasium.make("CartPole-v1")] * 3
    theirs = wrap_env(gymnasium.vector.SyncVectorEnv(single, autoreset_mode=mode), verbose=False)
    assert isinstance(envs, GymnasiumWrapper)
    envs._seed = theirs._seed = 5
    assert torch.equal(envs.reset()[0], theirs.reset()[0])
    generator = np.random.default_rng(0)
    ended = 0
    for _ in range(60):
        actions = torch.as_tensor(generator.integers(0, 2, (3, 1)))
        ours, expected = envs.step(actions), theirs.step(actions)
        assert all(map(torch.equal, ours[:4], expected[:4]))
        ended += int(ours[2].sum())
    assert ended
    envs.close()
    theirs.close()


def test_wrappers_are_detected():
    envs = vecenv.wrappers.NormalizeObservation(vecenv.make("CartPole-v1", 2, engine="sync"))
    assert isinstance(wrap_env(envs, verbose=False), GymnasiumWrapper)
    envs.close()


class Policy(CategoricalMixin, Model):
    def __init__(self, **kwargs):
        Model.__init__(self, **kwargs)
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, **kwargs):
        Model.__init__(self, **kwargs)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, 1)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


def train(envs, folder):
    """A few updates of PPO; whether the policy has changed."""
    spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space, "device": envs.device}
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    before = [parameter.clone() for parameter in models["policy"].parameters()]
    config = PPO_CFG(rollouts=16, learning_epochs=2, mini_batches=2)
    config.experiment.directory, config.experiment.write_interval = str(folder), 0
    config.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=16, num_envs=4, device=envs.device)
    agent = PPO(models=models, memory=memory, cfg=config, **spaces)
    SequentialTrainer(
        env=envs, agents=agent, cfg={"timesteps": 48, "headless": True, "disable_progressbar": True}
    ).train()
    return any(not torch.equal(*pair) for pair in zip(before, models["policy"].parameters(), strict=True))


def test_ppo_trains(tmp_path):
    assert train(wrap_env(vecenv.make("CartPole-v1", 4, autoreset="same-step"), verbose=False), tmp_path)


def on_device(id="CartPole-v1", count=4):
    return vecenv.make(id, count, device="cpu", autoreset="same-step")


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")  # skrl does not expect tensors
@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_envs_on_a_device_are_stepped_alike_by_skrls_wrapper_and_ours(id):
    theirs, ours = wrap_env(on_device(id), verbose=False), vecenv.skrl.Wrapper(on_device(id), seed=5)
    assert isinstance(theirs, GymnasiumWrapper)
    theirs._seed = 5
    assert torch.equal(ours.reset()[0], theirs.reset()[0])
    generator = np.random.default_rng(0)
    for _ in range(40):
        drawn = generator.integers(0, 2, (4, 1)) if id == "CartPole-v1" else generator.uniform(-2, 2, (4, 1))
        found, expected = ours.step(torch.as_tensor(drawn)), theirs.step(torch.as_tensor(drawn))
        assert all(map(torch.equal, found[:4], expected[:4]))
        assert [part.dtype for part in found[:4]] == [part.dtype for part in expected[:4]]
        assert torch.equal(ours.reset()[0], found[0])
    assert ours.unwrapped.engine.columns_apart.transfers == 0
    assert theirs.unwrapped.engine.columns_apart.transfers == 40, "one copy of the actions in each step"
    ours.close()
    theirs.close()


def test_ppo_trains_on_the_device_without_the_host(tmp_path):
    envs = vecenv.skrl.Wrapper(on_device(), seed=0)
    assert train(envs, tmp_path)
    assert envs.unwrapped.engine.columns_apart.transfers == 0
    envs.unwrapped.check()


def test_envs_of_the_host_are_left_to_skrls_wrapper():
    with vecenv.make("CartPole-v1", 2, autoreset="same-step") as envs, pytest.raises(ConfigTypeError, match="wrap_env"):
        vecenv.skrl.Wrapper(envs)
    with vecenv.make("CartPole-v1", 2, device="cpu") as envs, pytest.raises(ConfigError, match="same-step"):
        vecenv.skrl.Wrapper(envs)


def test_the_page_runs_as_written(tmp_path):
    run_page("skrl", tmp_path)
