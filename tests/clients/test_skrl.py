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


def test_ppo_trains(tmp_path):
    envs = wrap_env(vecenv.make("CartPole-v1", 4, autoreset="same-step"), verbose=False)
    spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space, "device": envs.device}
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    before = [parameter.clone() for parameter in models["policy"].parameters()]
    config = PPO_CFG(rollouts=16, learning_epochs=2, mini_batches=2)
    config.experiment.directory, config.experiment.write_interval = str(tmp_path), 0
    config.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=16, num_envs=4, device=envs.device)
    agent = PPO(models=models, memory=memory, cfg=config, **spaces)
    SequentialTrainer(
        env=envs, agents=agent, cfg={"timesteps": 48, "headless": True, "disable_progressbar": True}
    ).train()
    assert any(not torch.equal(*pair) for pair in zip(before, models["policy"].parameters(), strict=True))


def test_the_page_runs_as_written(tmp_path):
    run_page("skrl", tmp_path)
