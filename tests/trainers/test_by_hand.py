"""Written-out gradients are those of autograd, and native Adam is that of torch."""

import copy
import dataclasses
import pickle
from multiprocessing.reduction import ForkingPickler

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import vecenv
from vecenv.errors import UnsupportedError
from vecenv.trainers import PPO, SAC, PPOConfig, SACConfig, _few, _layers, _products, a2c
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._by_hand import by_hand
from vecenv.trainers._device import put
from vecenv.trainers._distributions import head_of
from vecenv.trainers._few import Few
from vecenv.trainers._networks import Stacks
from vecenv.trainers._optimizer import Adam, Flat
from vecenv.trainers.ppo import clipped_value_loss, ppo_loss

ROWS = 37
NUMBERS = spaces.Box(-np.inf, np.inf, (5,), np.float32)
ACTIONS = {
    "discrete": spaces.Discrete(4, start=3),
    "choices": spaces.MultiDiscrete([2, 5, 3]),
    "binary": spaces.MultiBinary(3),
    "box": spaces.Box(-1, 1, (3,), np.float32),
}
OBSERVATIONS = {
    "numbers": NUMBERS,
    "float64": spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    "discrete": spaces.Discrete(7),
    "dict": spaces.Dict({"where": NUMBERS, "which": spaces.MultiDiscrete([2, 3])}),
}
SETTINGS = {
    "plain": {},
    "all": {"clip_value": 0.1, "entropy": 0.02, "activation": "relu", "hidden": (9, 8), "normalize_advantage": False},
    "norm": {"max_grad_norm": 0.01, "entropy": 0.02, "hidden": (16,), "value_weight": 0.3},
}  # fmt: skip


def network_of(observation, action, config):
    network = ActorCritic(observation, head_of(action, -0.3), config)
    with torch.no_grad():
        for part in network.parameters():  # biases and outputs of PPO begin at zero
            part.add_(0.3 * torch.randn(part.shape))
    return network, Flat(network.parameters())


def sampled(observation, action, seed):
    """A minibatch with old values and probabilities near and far from those of the network."""
    generator = np.random.default_rng(seed)
    several = gymnasium.vector.utils.batch_space(observation, ROWS)
    several.seed(seed)
    head = head_of(action)
    if isinstance(action, spaces.Box):
        actions = generator.normal(size=(ROWS, head.inputs)).astype(np.float32)
    else:
        actions = generator.integers(0, head.sizes, (ROWS, len(head.sizes)))
    return several.sample(), actions, generator.normal(size=(ROWS, 4)).astype(np.float32)


@pytest.fixture(params=["oneDNN", "MKL"])
def library(request, monkeypatch):
    """Products of these small matrices by either library."""
    if request.param == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch was built without oneDNN")
    product = _products.one_dnn() if request.param == "oneDNN" else None
    assert (product is None) == (request.param == "MKL"), "torch has renamed its operation"
    monkeypatch.setattr(_products, "_product", product)
    monkeypatch.setattr(_products, "_LARGE", 0)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("few", [0, _layers._FEW], ids=["torch", "native"])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    ("observation", "action", "masked"),
    [("numbers", "discrete", False), ("float64", "box", False), ("discrete", "choices", True), ("dict", "binary", True)]
)  # fmt: skip
def test_the_gradient_of_ppo_is_that_of_autograd(observation, action, masked, settings, few, monkeypatch):
    monkeypatch.setattr(_layers, "_FEW", few)
    torch.manual_seed(0)
    config = PPOConfig(**SETTINGS[settings])
    network, flat = network_of(OBSERVATIONS[observation], ACTIONS[action], config)
    obs, actions, numbers = sampled(OBSERVATIONS[observation], ACTIONS[action], 1)
    outputs, value, _ = network(put(obs, torch.device("cpu")))
    mask = None
    if masked:
        mask = np.random.default_rng(2).random(outputs.shape) < 0.7
        ends = np.cumsum([0, *network.head.sizes])[:-1]
        np.put_along_axis(mask, actions + ends, True, 1)
    allowed = None if mask is None else torch.from_numpy(mask)
    log_prob, entropy = network.head.judge(outputs, allowed, torch.from_numpy(actions))
    numbers[:, 2] = value.detach().numpy() + 0.2 * numbers[:, 2]
    numbers[:, 3] = log_prob.detach().numpy() + 0.3 * numbers[:, 3]
    advantage, returns, old_value, old_log_prob = torch.from_numpy(numbers.copy()).unbind(-1)
    if config.normalize_advantage:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy, kl = ppo_loss(log_prob, old_log_prob, advantage, 0.2)
    value_loss = clipped_value_loss(value, old_value, returns, config.clip_value)
    loss = policy + config.value_weight * value_loss - config.entropy * entropy.mean()
    expected = flat.gradient(loss, config.max_grad_norm)
    batch = {"obs": obs, "actions": actions, "numbers": numbers, **({} if mask is None else {"mask": mask})}
    found, parts = by_hand(network, flat).gradient_of(batch, config, 0.2, config.entropy)
    assert expected.abs().min() < expected.abs().max() / 100
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=5e-6 * float(expected.abs().max()))  # sums of 37 rows
    wanted = {"policy": policy, "value": value_loss, "entropy": entropy.mean(), "kl": kl}
    assert parts == pytest.approx({name: float(part.detach()) for name, part in wanted.items()}, rel=1e-4, abs=1e-6)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("stacks", [1, 2])
@pytest.mark.parametrize("turned", ["nothing", "given", "weight"])
def test_products_are_exact_up_to_rounding_and_keep_nan(stacks, turned):
    """Also with bias, with transposed matrices, and where both stacks have the same input."""
    torch.manual_seed(0)
    given, weight, bias = torch.randn(1, 40, 7), torch.randn(stacks, 7, 300), torch.randn(stacks, 1, 300)
    given[0, 3, 2] = torch.nan
    if turned == "given":
        given = given.transpose(1, 2).contiguous().transpose(1, 2)
    if turned == "weight":
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    exact, given = given.double() @ weight.double(), given.expand(stacks, 40, 7)
    for added in (None, bias):
        out = torch.empty(stacks, 40, 300)
        _products.multiply_stacks(given, weight, out, added)
        wanted = exact if added is None else exact + added
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
        _products.multiply(given[0], weight[0], out[0], None if added is None else added[0, 0])
        np.testing.assert_allclose(out[0], wanted[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_sums_over_many_rows_are_as_exact_as_float32_allows(activation, monkeypatch):
    """A single float32 that adds up 100,000 rows is wrong by 1e-5 of the sum."""
    monkeypatch.setattr(_layers, "_FEW", 1 << 30)
    torch.manual_seed(0)
    rows = 100_001
    stacks, linear = Stacks(2, 3, (4,), activation), nn.Linear(4, 2)
    flat = Flat([*stacks.parameters(), *linear.parameters()])
    _, gradients = _layers.gradients_of(flat)
    hidden, last = _layers.Hidden(stacks, gradients), _layers.Linear(linear, gradients)
    outputs = hidden.forward(torch.rand(rows, 3))
    last.forward(outputs[0])
    derivative = torch.rand(rows, 2)
    last.backward(derivative, hidden.for_outputs[0])
    for part in hidden.for_outputs:
        part.copy_(torch.rand(rows, 4))
    wide = torch.stack(outputs).double()
    slope = 1 - wide**2 if activation == "tanh" else (wide > 0).double()
    exact = {
        linear.weight: derivative.double().t() @ wide[0],
        linear.bias: derivative.double().sum(0),
        stacks.biases[0]: (torch.stack(hidden.for_outputs).double() * slope).sum(1, keepdim=True),
    }
    hidden.backward()
    for parameter, expected in exact.items():
        torch.testing.assert_close(gradients[parameter].double(), expected, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("most", [0, 1 << 40], ids=["torch", "native"])
@pytest.mark.parametrize("action", ACTIONS)
def test_actions_have_the_probabilities_of_the_network(action, most, monkeypatch):
    monkeypatch.setattr(_few, "MOST", most)
    torch.manual_seed(0)
    network, flat = network_of(NUMBERS, ACTIONS[action], PPOConfig())
    obs = np.tile(np.linspace(-1, 1, 5, dtype=np.float32), (4000, 1))  # one observation, many samples
    mask = None if action == "box" else np.tile(np.arange(network.head.inputs) != 1, (4000, 1))
    actions, value, log_prob = by_hand(network, flat).act(obs, mask, torch.Generator().manual_seed(0))
    with torch.no_grad():
        outputs, values, _ = network(torch.from_numpy(obs))
        allowed = None if mask is None else torch.from_numpy(mask)
        expected, _ = network.head.judge(outputs, allowed, torch.from_numpy(actions))
        others, _ = network.head.draw(outputs, allowed, torch.Generator().manual_seed(1))
    np.testing.assert_allclose(value, values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(actions.T, others.numpy().T, strict=True):  # 4,000 samples of each: within five deviations
        assert abs(one.mean() - other.mean()) < 5 * one.std() * np.sqrt(2 / 4000) + 1e-9
        assert abs(one.std() - other.std()) < 0.2 * one.std() + 1e-9
        assert mask is None or 1 not in actions[:, 0]


@pytest.mark.parametrize("settings", [{}, {"activation": "relu", "hidden": (9, 24, 3)}, {"hidden": (16,)}])
def test_few_observations_have_the_outputs_of_the_network(settings):
    torch.manual_seed(0)
    network, _ = network_of(NUMBERS, ACTIONS["box"], PPOConfig(**settings))
    obs = 10.0 ** np.random.default_rng(0).uniform(-6, 2, (20, 5)).astype(np.float32)  # tanh has reached 1 for some
    obs[::2] *= -1
    few = Few(network)
    assert few.fits(20)
    assert not few.fits(10_000)
    outputs, value = few.forward(obs)
    with torch.no_grad():
        expected, values, _ = network(torch.from_numpy(obs))
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(value[:, 0], values, rtol=1e-5, atol=2e-5)
    obs[3, 1] = np.nan
    for part in few.forward(obs):
        assert (np.isnan(part).any(1) == (np.arange(20) == 3)).all()


def test_nan_in_a_minibatch_reaches_the_gradient():
    network, flat = network_of(NUMBERS, spaces.Discrete(2), PPOConfig())
    obs, actions, numbers = sampled(NUMBERS, spaces.Discrete(2), 1)
    for column in range(4):
        broken = numbers.copy()
        broken[3, column] = np.nan
        clip = PPOConfig(clip_value=0.2)
        batch = {"obs": obs, "actions": actions, "numbers": broken}
        assert by_hand(network, flat).gradient_of(batch, clip, 0.2, 0.0)[0].isnan().any(), column


def test_a_network_that_was_sent_to_another_process_acts_and_learns_as_before():
    """Sending moves the parameters to shared memory, and gives the memory that they had back."""
    network, flat = network_of(NUMBERS, ACTIONS["box"], PPOConfig())
    obs, actions, numbers = sampled(NUMBERS, ACTIONS["box"], 1)
    batch, hand = {"obs": obs, "actions": actions, "numbers": numbers}, by_hand(network, flat)
    ForkingPickler.dumps(network)
    with torch.no_grad():
        network.head.log_std.add_(1.0)
    drawn, _, log_prob = hand.act(obs, None, torch.Generator().manual_seed(0))
    found = hand.gradient_of(batch, PPOConfig(), 0.2, 0.01)[0].clone()
    with torch.no_grad():
        expected = network.head.judge(network(torch.from_numpy(obs))[0], None, torch.from_numpy(drawn))[0]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, by_hand(network, flat).gradient_of(batch, PPOConfig(), 0.2, 0.01)[0])


def test_defaults_of_torch_that_change_after_construction_do_not_matter():
    network, flat = network_of(NUMBERS, ACTIONS["box"], PPOConfig())
    obs, actions, numbers = sampled(NUMBERS, ACTIONS["box"], 1)
    batch, found = {"obs": obs, "actions": actions, "numbers": numbers}, []
    try:
        for default in (torch.float32, torch.float64):
            torch.set_default_dtype(default)
            hand = by_hand(network, flat)
            drawn = hand.act(obs, None, torch.Generator().manual_seed(0))
            found.append([*drawn, hand.gradient_of(batch, PPOConfig(), 0.2, 0.01)[0].numpy().copy()])
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_plain_networks_on_the_cpu_are_written_out():
    for settings, device, plain in (
        ({}, "cpu", True),
        ({"lstm": 8}, "cpu", False),
        ({"hidden": ()}, "cpu", False),
        ({}, "meta", False),
    ):
        network = ActorCritic(NUMBERS, head_of(spaces.Discrete(2)), PPOConfig(**settings)).to(device)
        assert (by_hand(network, Flat(network.parameters())) is not None) == plain
    network = ActorCritic(NUMBERS, head_of(spaces.Discrete(2)), PPOConfig()).double()
    assert by_hand(network, Flat(network.parameters())) is None
    image = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    network = ActorCritic(image, head_of(spaces.Discrete(2)), PPOConfig())
    assert by_hand(network, Flat(network.parameters())) is None


@pytest.mark.parametrize("envs", ["same-step", "next-step"])
def test_a_run_without_autograd_is_the_run_with_it_up_to_rounding(envs):
    """With A2C's optimizer and plain gradient descent, rounding stays small for a few updates."""
    config, found = a2c(num_envs=4, rollout_steps=16, learning_rate=1e-3, entropy=0.01), []
    for own in (True, False):
        made = vecenv.make("CartPole-v1", 4, autoreset=envs)
        trainer = PPO(made, dataclasses.replace(config), seed=1, device="cpu", optimizer=torch.optim.SGD)
        trainer._by_hand = trainer._by_hand if own else None
        trainer.learn(4 * 16 * 5)
        found.append(trainer.flat.vector.clone())
        trainer.close()
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"priority": 0.6}, {"entropy": 0.2, "hidden": (16,)}])
def test_updates_of_sac_are_those_of_autograd(settings):
    config = SACConfig(
        **{"num_envs": 2, "capacity": 500, "warmup": 200, "minibatch": 64, "hidden": (16, 24), **settings}
    )
    trainer = SAC("Pendulum-v1", config, seed=0, device="cpu", optimizer=torch.optim.SGD).learn(198)
    vectors = [getattr(trainer, name).vector for name in ("flat_actor", "flat_critic", "flat_target", "flat_entropy")]
    before, drawn, found = [vector.clone() for vector in vectors], trainer.buffer.sample(64), []
    drawn.terminated[:9], drawn.discount[:9] = True, 0.0
    for hand in (trainer._by_hand, None):
        trainer._by_hand = hand
        trainer.generator.manual_seed(0)
        for vector, first in zip(vectors, before, strict=True):
            vector.copy_(first)
        for _ in range(3):
            trainer._update(drawn)
        losses = [float(loss) for loss in trainer._losses.values()]
        found.append(([vector.clone() for vector in vectors], losses))
    for one, other, first in zip(found[0][0], found[1][0], before, strict=True):
        moved = float((other - first).abs().max())
        assert moved > 0 or len(first) == 1
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4 * moved)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-4)
    trainer.close()


class Replacing(torch.optim.SGD):
    """Gradient descent that gives parameters new memory at every step."""

    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            for part in group["params"]:
                part.data = part.data.clone()


SMALL_SAC = {"num_envs": 2, "capacity": 500, "warmup": 100, "minibatch": 16, "hidden": (8,)}


def test_optimizers_that_replace_the_data_of_parameters_move_what_acts():
    found, soft = [], []
    for optimizer in (torch.optim.SGD, Replacing):
        config = a2c(num_envs=4, rollout_steps=16, learning_rate=1e-2, hidden=(8,))
        trainer = PPO("CartPole-v1", config, seed=1, device="cpu", optimizer=optimizer).learn(4 * 16 * 4)
        found.append(torch.cat([part.detach().flatten() for part in trainer.network.parameters()]))
        trainer.close()
        trainer = SAC("Pendulum-v1", SACConfig(**SMALL_SAC), seed=0, device="cpu", optimizer=optimizer).learn(120)
        parts = [*trainer.network.parameters(), *trainer.target.parameters(), *trainer.flat_entropy.parameters]
        soft.append(torch.cat([part.detach().flatten() for part in parts]))
        trainer.close()
    assert torch.equal(*found)
    assert torch.equal(*soft)


def test_parameters_that_the_user_replaces_are_those_that_act_and_learn():
    trainer = PPO("CartPole-v1", PPOConfig(num_envs=4, rollout_steps=8, hidden=(8,)), seed=1, device="cpu").learn(32)
    for part in trainer.network.parameters():
        part.data = torch.full_like(part, 0.5)
    trainer.learn(64)
    values = trainer.buffer.extras["value"][0]
    moved = torch.cat([(part.detach() - 0.5).abs().flatten() for part in trainer.network.parameters()])
    assert values.min() > 1.0
    assert 0 < moved.max() < 0.1
    trainer.close()


@pytest.mark.parametrize("optimizer", [None, torch.optim.Adam])
def test_frozen_parameters_stay_as_they_are_and_the_others_learn(optimizer):
    config = PPOConfig(num_envs=4, rollout_steps=8, hidden=(8,))
    ppo = PPO("CartPole-v1", config, seed=1, device="cpu", optimizer=optimizer).learn(32)
    sac = SAC("Pendulum-v1", SACConfig(**SMALL_SAC), seed=0, device="cpu", optimizer=optimizer).learn(120)
    for trainer, frozen, steps in ((ppo, ppo.network.stacks, 64), (sac, sac.network.stack, 140)):
        frozen.requires_grad_(False)
        before = {name: part.detach().clone() for name, part in trainer.network.named_parameters()}
        trainer.learn(steps)
        for name, part in trainer.network.named_parameters():
            assert torch.equal(part, before[name]) != part.requires_grad, name
        trainer.close()


def test_adam_on_the_cpu_is_that_of_torch():
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(501))
    twin = torch.nn.Parameter(parameter.detach().clone())
    flat, theirs = Flat([parameter]), torch.optim.Adam([twin], lr=3e-3, eps=1e-5)
    ours = Adam(flat, 3e-3, 1e-5)
    for _ in range(50):
        gradient = torch.randn(501) * 10 ** torch.randn(501)
        ours.step(gradient)
        twin.grad = gradient
        theirs.step()
    torch.testing.assert_close(flat.vector, twin.detach(), rtol=1e-5, atol=1e-6)


def test_minibatches_of_different_sizes_have_the_gradients_of_fresh_memory():
    network, flat = network_of(NUMBERS, ACTIONS["box"], PPOConfig())
    obs, actions, numbers = sampled(NUMBERS, ACTIONS["box"], 1)
    reused = by_hand(network, flat)
    for rows in (ROWS, 5, 1, ROWS):
        batch = {"obs": obs[:rows], "actions": actions[:rows], "numbers": numbers[:rows]}
        found, losses = reused.gradient_of(batch, PPOConfig(), 0.2, 0.0)
        expected, same = by_hand(network, flat).gradient_of(batch, PPOConfig(), 0.2, 0.0)
        assert torch.equal(found, expected)
        assert losses == same


def test_a_network_in_shared_memory_learns_as_before_with_an_optimizer_of_torch():
    """Its gradients are views of the gradient of all parameters, so they move too."""

    def learnt(share):
        trainer = PPO("Pendulum-v1", PPOConfig(num_envs=2, rollout_steps=16), optimizer=torch.optim.SGD).learn(32)
        if share:
            trainer.network.share_memory()
        trainer.learn(96).close()
        return trainer.flat.vector

    assert torch.equal(learnt(True), learnt(False))


@pytest.mark.parametrize("trainer", [PPO, SAC])
def test_a_trainer_is_saved_and_not_copied(trainer):
    made = trainer("Pendulum-v1", trainer.Config(num_envs=1))
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(UnsupportedError, match=r"load\(path, envs\)"):
            copied(made)
    copy.deepcopy(made.policy)
    made.close()
