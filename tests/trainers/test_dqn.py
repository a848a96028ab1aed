"""DQN: its targets are those of the formulas; it stops and continues exactly. Whether it learns: test_learning.py."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import vecenv
from tests.trainers.test_devices import DEEP
from tests.trainers.test_trainers import Bandit, vector
from vecenv.errors import ConfigError, SpaceError
from vecenv.trainers import DQN, DQNConfig
from vecenv.trainers.dqn import QHead, QNetwork


def config(**changes):
    return DQNConfig(**{**vars(DEEP), **changes})


@pytest.mark.parametrize("changes", [{}, {"n_step": 3, "priority": 0.6, "dueling": True, "normalize_obs": True}])
def test_training_that_was_stored_ends_with_the_same_weights(changes, tmp_path):
    whole = DQN("CartPole-v1", config(**changes), seed=1).learn(160)
    half = DQN("CartPole-v1", config(**changes), seed=1).learn(160, lambda progress: progress.steps < 80)
    own = half.buffer.state_dict(copy=False)["arrays"]
    for name, array in half.state_dict()["buffer"]["arrays"].items():
        assert np.shares_memory(array, own[name]), f"a checkpoint would need the memory of another {name}"
    half.save(tmp_path / "half.npz")
    again = DQN.load(tmp_path / "half.npz").learn(160)
    assert torch.equal(vector(again), vector(whole))
    assert not torch.equal(vector(again), vector(DQN("CartPole-v1", config(**changes), seed=2).learn(160)))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("priority", [None, 0.6])
def test_the_gradient_is_that_of_the_targets_sample_by_sample(double, priority):
    trainer = DQN("CartPole-v1", config(double=double, priority=priority, max_grad_norm=1e9), seed=0).learn(60)
    with torch.no_grad():
        trainer.flat_target.vector.add_(0.05 * torch.randn(len(trainer.flat_target.vector)))
    batch, taken = trainer.buffer.sample(16), []
    expected = []
    weights = [part.detach().clone().requires_grad_() for part in trainer.network.parameters()]
    names = [name for name, _ in trainer.network.named_parameters()]
    values = torch.func.functional_call(
        trainer.network, dict(zip(names, weights, strict=True)), torch.from_numpy(batch.obs)
    )[0]
    with torch.no_grad():
        own, theirs = (one(torch.from_numpy(batch.next_obs))[0] for one in (trainer.network, trainer.target))
    for row in range(16):
        chosen = int((own if double else theirs)[row].argmax())
        bootstrap = 0.0 if batch.terminated[row] else 0.99 * float(theirs[row, chosen])
        error = values[row, int(batch.actions[row, 0])] - (float(batch.reward[row]) + bootstrap)
        huber = 0.5 * error**2 if abs(error.item()) < 1 else error.abs() - 0.5
        expected.append(huber * float(batch.weight[row]))
    gradient = torch.autograd.grad(sum(expected) / 16, weights)
    trainer.optimizer.step = taken.append
    trainer._update(batch)
    torch.testing.assert_close(taken[0], torch.cat([part.reshape(-1) for part in gradient]), rtol=1e-3, atol=1e-6)


def test_dueling_values_are_advantages_around_the_state_value():
    network = QNetwork(spaces.Box(-1, 1, (3,)), QHead(spaces.Discrete(4)), config(dueling=True))
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        values, _, _ = network(obs)
        hidden = network.stacks(network.encoder(obs))
        torch.testing.assert_close(values.mean(-1), network.value(hidden[1]).squeeze(-1))
        advantage = network.advantage(hidden[0])
        torch.testing.assert_close(values.argmax(-1), advantage.argmax(-1))


def test_exploration_falls_as_the_settings_say():
    usual = DQNConfig(exploration_share=0.5, final_exploration=0.1)
    assert [usual.exploration_at(done) for done in (0, 0.25, 0.5, 1)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert DQNConfig(exploration_share=0.0).exploration_at(0.0) == pytest.approx(0.05)
    assert DQNConfig(exploration=lambda done: 0.3 - 0.3 * done).exploration_at(0.5) == pytest.approx(0.15)
    never, always = (DQN("CartPole-v1", config(exploration=share, warmup=0), seed=0) for share in (0.0, 1.0))
    obs = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        best = never.network(obs)[0].argmax(-1, keepdim=True)
        assert all(torch.equal(never._draw(obs), best) for _ in range(20))
        drawn = torch.stack([always._draw(obs) for _ in range(200)])
    assert 0.4 < float(drawn.float().mean()) < 0.6


def test_the_target_moves_every_so_many_updates_by_tau():
    trainer = DQN("CartPole-v1", config(target_every=10, tau=0.5, updates_per_step=0), seed=0).learn(60)
    first = trainer.flat_target.vector.clone()
    for _ in range(9):
        trainer._update(trainer.buffer.sample(16))
    assert torch.equal(trainer.flat_target.vector, first)
    trainer._update(trainer.buffer.sample(16))
    torch.testing.assert_close(trainer.flat_target.vector, first.lerp(trainer.flat.vector, 0.5))


def test_the_target_values_as_a_network_that_acts_does():
    class Noisy(nn.Module):
        def __init__(self, space, outputs):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, outputs))

        def forward(self, obs, memory, began):
            return self.layers(obs), None, None

    trainer = DQN("CartPole-v1", config(target_every=1, tau=1.0, updates_per_step=0.5), seed=0, network=Noisy).learn(
        120
    )
    obs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(trainer.target(obs)[0], trainer.network.eval()(obs)[0])
        assert not torch.equal(trainer.network.train()(obs)[0], trainer.target(obs)[0])


class Film(Bandit):
    """Stacks of the last four frames."""

    def __init__(self):
        super().__init__(spaces.Box(0, 255, (4, 12, 12), np.uint8), spaces.Discrete(3))

    def frame(self):
        return self.np_random.integers(0, 256, (1, 12, 12), np.uint8)

    def reset(self, *, seed=None, options=None):
        super(Bandit, self).reset(seed=seed)
        self.time, self.frames = 0, np.repeat(self.frame(), 4, 0)
        return self.frames, {}

    def step(self, action):
        self.time, self.frames = self.time + 1, np.concatenate([self.frames[1:], self.frame()])
        return self.frames, float(action), False, self.time == 4, {}


def test_frames_that_are_stored_once_give_the_same_training():
    plain, stacked = (
        DQN(
            vecenv.make(Film, 2, engine="sync", autoreset="same-step"), config(stack=stack, image_features=8), seed=0
        ).learn(60)
        for stack in (None, 4)
    )
    assert stacked.buffer.nbytes < plain.buffer.nbytes / 3
    assert stacked.updates > 0
    assert torch.equal(vector(plain), vector(stacked))


def test_spaces_and_groups_that_it_cannot_take_are_refused():
    with pytest.raises(SpaceError, match=r"DQN needs a Discrete action space, got Box.*use PPO, or SAC"):
        DQN("Pendulum-v1")
    with pytest.raises(ConfigError, match="DQN trains on one vector env, got 2"):
        DQN([vecenv.make("CartPole-v1", 1), vecenv.make("CartPole-v1", 1)], DEEP)
