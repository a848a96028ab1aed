"""Distributions, optimizers, networks, checkpoints: each against torch itself or plain Python."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions

from vecenv.errors import SpaceError, UnsafeFile, UnsupportedError
from vecenv.trainers import PPOConfig
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._checkpoint import load_tree, save_tree, tensors
from vecenv.trainers._distributions import head_of
from vecenv.trainers._networks import Encoder, Stacks, example
from vecenv.trainers._optimizer import Adam, Flat, RMSprop
from vecenv.trainers._progress import Episodes
from vecenv.trainers._soft_networks import SoftActor, Squashed
from vecenv.trainers.ppo import ppo_loss


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# --- distributions ---------------------------------------------------------------------------------------------------


def test_discrete_probabilities_and_entropy_are_those_of_torch():
    head, logits = head_of(spaces.Discrete(4, start=2)), torch.randn(50, 4, generator=seeded())
    drawn, log_prob = head.draw(logits, None, seeded())
    expected = distributions.Categorical(logits=logits)
    torch.testing.assert_close(log_prob, expected.log_prob(drawn.squeeze(-1)))
    judged, entropy = head.judge(logits, None, drawn)
    torch.testing.assert_close(judged, log_prob)
    torch.testing.assert_close(entropy, expected.entropy())
    np.testing.assert_array_equal(head.to_env(drawn), drawn.squeeze(-1).numpy() + 2)
    np.testing.assert_array_equal(head.mode(logits, None).squeeze(-1), logits.argmax(-1))


def test_draws_come_as_often_as_their_probability():
    head, logits = head_of(spaces.Discrete(3)), torch.tensor([0.1, 0.6, 0.3]).log()
    drawn, _ = head.draw(logits.expand(20_000, 3), None, seeded())
    np.testing.assert_allclose(np.bincount(drawn.numpy().ravel()) / 20_000, [0.1, 0.6, 0.3], atol=0.015)


def test_several_choices_are_independent():
    head = head_of(spaces.MultiDiscrete([2, 3]))
    logits = torch.randn(20, 5, generator=seeded())
    drawn, log_prob = head.draw(logits, None, seeded())
    parts = [distributions.Categorical(logits=part) for part in logits.split([2, 3], -1)]
    torch.testing.assert_close(log_prob, sum(part.log_prob(drawn[:, place]) for place, part in enumerate(parts)))
    torch.testing.assert_close(head.judge(logits, None, drawn)[1], sum(part.entropy() for part in parts))
    assert head.to_env(drawn).shape == (20, 2)


@pytest.mark.parametrize("space", [spaces.Discrete(4), spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2)])
def test_masked_actions_are_never_taken(space):
    head, generator = head_of(space), seeded()
    logits = 20 * torch.randn(500, 4, generator=generator)
    mask = torch.rand(500, 4, generator=generator) < 0.5
    mask[:, [0, 3]] = True  # something is allowed in every choice
    for actions in (head.draw(logits, mask, generator)[0], head.mode(logits, mask)):
        offsets = torch.tensor([0]) if len(head.sizes) == 1 else torch.tensor([0, 2])
        assert mask.gather(1, actions + offsets).all()
    log_prob, entropy = head.judge(logits, mask, head.draw(logits, mask, generator)[0])
    assert torch.isfinite(log_prob).all()
    assert (entropy >= -1e-5).all()


def test_gaussian_densities_are_those_of_torch_and_envs_get_them_clipped():
    space = spaces.Box(-0.5, 0.5, (2, 1), np.float32)
    head = head_of(space, log_std=-0.3)
    mean = torch.randn(50, 2, generator=seeded())
    with torch.no_grad():
        drawn, log_prob = head.draw(mean, None, seeded())
        expected = distributions.Normal(mean, torch.tensor(-0.3).exp())
        torch.testing.assert_close(log_prob, expected.log_prob(drawn).sum(-1))
        torch.testing.assert_close(head.judge(mean, None, drawn)[1], expected.entropy().sum(-1))
    actions = head.to_env(drawn)
    assert actions.shape == (50, 2, 1)
    assert np.abs(actions).max() == 0.5


def test_squashed_densities_are_those_of_torch():
    with torch.random.fork_rng():
        torch.manual_seed(0)  # some weights saturate tanh, where torch's own density is NaN or has few digits
        actor = SoftActor(spaces.Box(-1, 1, (3,)), Squashed(spaces.Box(-2, 4, (2,))), (8,), 8)
    obs = torch.randn(40, 3, generator=seeded())
    with torch.no_grad():
        actions, log_prob = actor.draw(obs, seeded())
        mean, log_std = actor.parts(obs)
        normal = distributions.Normal(mean, log_std.exp())
        squashed = distributions.TransformedDistribution(normal, distributions.TanhTransform())
    torch.testing.assert_close(log_prob, squashed.log_prob(actions).sum(-1), rtol=1e-3, atol=1e-4)  # atanh loses digits
    assert Squashed(spaces.Box(-2, 4, (2,))).to_env(torch.tensor([[-1.0, 1.0]])).tolist() == [[-2.0, 4.0]]


def test_spaces_that_cannot_be_acted_in_are_refused():
    with pytest.raises(SpaceError, match="PPO supports"):
        head_of(spaces.Text(3))
    with pytest.raises(SpaceError, match="use PPO"):
        Squashed(spaces.Discrete(3))
    with pytest.raises(SpaceError, match="bounds"):
        Squashed(spaces.Box(-np.inf, np.inf, (1,)))


# --- loss and optimizers ---------------------------------------------------------------------------------------------


def test_the_loss_is_the_clipped_objective_sample_by_sample():
    generator = np.random.default_rng(0)
    new, old, advantage = generator.normal(size=(3, 200)) * 0.5
    expected = []
    for log_prob, old_log_prob, gain in zip(new, old, advantage, strict=True):
        ratio = np.exp(log_prob - old_log_prob)
        expected.append(min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain))
    loss, kl = ppo_loss(*(torch.tensor(column) for column in (new, old, advantage)), 0.2)
    assert float(loss) == pytest.approx(-np.mean(expected))
    assert float(kl) == pytest.approx(np.mean(np.exp(new - old) - 1 - (new - old)))


@pytest.mark.parametrize(("own", "theirs"), [(Adam, torch.optim.Adam), (RMSprop, torch.optim.RMSprop)])
def test_optimizers_do_what_torch_does(own, theirs):
    def layers():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))

    with torch.random.fork_rng():
        first, second = layers(), layers()
    flat = Flat(first.parameters())
    one, two = own(flat, 0.01, eps=1e-5), theirs(second.parameters(), lr=0.01, eps=1e-5)
    for number in range(20):
        batch = torch.randn(16, 3, generator=seeded(number))
        one.step(flat.gradient(first(batch).square().mean(), max_norm=0.1))
        two.zero_grad()
        second(batch).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(second.parameters(), 0.1)
        two.step()
    for ours, torchs in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-6)  # some hundred roundings in another order


# --- networks --------------------------------------------------------------------------------------------------------


def test_stacks_are_separate_networks():
    stacks = Stacks(2, 3, (5, 4), "tanh")
    features = torch.randn(7, 3, generator=seeded())
    for number in range(2):
        hidden = features
        for weight, bias in zip(stacks.weights, stacks.biases, strict=True):
            hidden = torch.tanh(hidden @ weight[number] + bias[number])
        torch.testing.assert_close(stacks(features)[number], hidden)


@pytest.mark.parametrize(
    ("space", "features"),
    [
        (spaces.Box(-1, 1, (2, 3)), 6),
        (spaces.Discrete(4, start=1), 4),
        (spaces.MultiDiscrete([2, 3]), 5),
        (spaces.MultiBinary(3), 3),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), 32),
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), 32),
        (spaces.Box(0, 1, (10, 10, 4), np.uint8), 32),
        (
            spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, ())])}),
            6,
        ),
    ],
)
def test_any_observation_becomes_features(space, features):
    encoder = Encoder(space, 32)
    from gymnasium.vector.utils import batch_space

    from vecenv._batch.layout import map_tree

    batch = map_tree(torch.as_tensor, batch_space(space, 3).sample())
    assert encoder(batch).shape == (3, features) == (3, encoder.features)


def test_observations_without_a_fixed_size_are_refused():
    with pytest.raises(UnsupportedError, match="no fixed size"):
        Encoder(spaces.Text(3))


def test_a_memory_is_empty_where_an_episode_begins():
    network = ActorCritic(spaces.Box(-1, 1, (3,)), head_of(spaces.Discrete(2)), PPOConfig(lstm=8))
    generator = seeded()
    obs = torch.randn(10, 4, 3, generator=generator)
    began = torch.rand(10, 4, generator=generator) < 0.3
    state = (torch.randn(4, 8, generator=generator), torch.randn(4, 8, generator=generator))
    with torch.no_grad():
        outputs, values = network.sequences(obs, state, began)
        for env in range(4):
            memory = tuple(part[env : env + 1] for part in state)
            for time in range(10):
                memory = None if began[time, env] else memory  # a new one
                output, value, memory = network(obs[time, env : env + 1], memory)
                torch.testing.assert_close(outputs[time * 4 + env], output[0])
                torch.testing.assert_close(values[time * 4 + env], value[0])


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_trees_come_back_as_they_were(tmp_path):
    tree = {"a": [1, 2.5, None, "x", True], 3: {"b": torch.arange(3), "c": np.array([1, 2], np.uint64)}, "e": {}}
    save_tree(tmp_path / "t.npz", tree)
    again = load_tree(tmp_path / "t.npz")
    assert again["a"] == tree["a"]
    assert again["e"] == {}
    assert torch.equal(tensors(again[3]["b"]), tree[3]["b"])
    assert again[3]["c"].dtype == np.uint64
    assert [path.name for path in tmp_path.iterdir()] == ["t.npz"]


def test_files_that_would_run_code_and_damaged_ones_are_refused(tmp_path):
    np.savez(tmp_path / "code.npz", about=np.array({"a": 1}, dtype=object))
    (tmp_path / "text.npz").write_bytes(b"hello")
    save_tree(tmp_path / "half.npz", {"a": np.zeros(1000)})
    whole = (tmp_path / "half.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("code.npz", "text.npz", "half.npz"):
        with pytest.raises(UnsafeFile, match=r"not a .*checkpoint"):
            load_tree(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_tree(tmp_path / "none.npz")
    with pytest.raises(TypeError, match="cannot be stored as data"):
        save_tree(tmp_path / "object.npz", {"a": object()})


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(5, start=2), spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 2], [3, 4]]),
     spaces.MultiBinary(3), spaces.Box(3, 5, (2,), np.int8), spaces.Box(-np.inf, -2), spaces.Box(0, 1, (3,), np.bool_),
     spaces.Dict({"a": spaces.Discrete(2, start=-3), "t": spaces.Tuple((spaces.Box(1, 2), spaces.Box(-1, 1, ())))})],
    ids=str,
)  # fmt: skip
def test_examples_are_in_their_space(space):
    from gymnasium.vector.utils import batch_space

    assert batch_space(space, 2).contains(example(space, 2))


def test_a_trainers_mean_return_leaves_out_what_a_fault_ended():
    episodes = Episodes(3)
    ends, faulty = np.array([True, True, False]), np.array([True, False, False])
    episodes.add(np.array([1.0, 2.0, 3.0]), ends, True, np.arange(3), faulty)
    assert (episodes.ended, episodes.skipped, episodes.mean()[0]) == (2, 1, 2.0)
