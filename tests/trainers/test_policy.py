"""What a policy accepts as observations and masks. Its actions are tested with the trainers."""

import functools
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

import vecenv
from tests.trainers.test_trainers import SMALL, SOFT, Bandit
from vecenv.errors import SpaceError
from vecenv.trainers import PPO, SAC, Policy, PPOConfig

SPACES = {
    "box": spaces.Box(-1, 1, (2, 3)),
    "choice": spaces.Discrete(5, start=2),
    "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "dict": spaces.Dict(
        {"a": spaces.Box(-1, 1, (3,)), "b": spaces.Discrete(3), "image": spaces.Box(0, 255, (12, 12, 1), np.uint8)}
    ),
    "tuple": spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([3, 4], start=[1, 2]))),
}


def bandit(observation, action):
    return vecenv.make(lambda: Bandit(observation, action), 2, engine="sync", autoreset="same-step")


@functools.cache
def policy_of(name):
    """A policy with actions that differ from one observation to the next."""
    trainer = PPO(bandit(SPACES[name], spaces.Box(-1, 1, (2,))), PPOConfig(**SMALL, image_features=8), seed=0)
    trainer.close()
    return trainer.policy


def sample_of(name):
    SPACES[name].seed(1)
    return SPACES[name].sample()


@pytest.mark.parametrize(
    "form",
    [np.ndarray.tolist, np.int64, np.float32, torch.from_numpy, lambda image: torch.from_numpy(image).float()],
    ids=["list", "int64", "float32", "tensor", "float tensor"],
)
def test_an_image_is_the_same_in_every_dtype(form):
    policy, image = policy_of("image"), sample_of("image")
    np.testing.assert_array_equal(policy(form(image)), policy(image))
    batch = np.stack([image, image[::-1]])
    np.testing.assert_array_equal(policy(form(batch)), policy(batch))
    np.testing.assert_array_equal(policy.predict(form(batch))[0], policy(batch))


def test_views_and_arrays_that_are_not_writable_are_observations():
    policy, image = policy_of("image"), sample_of("image")
    np.testing.assert_array_equal(policy(image[:, ::-1]), policy(image[:, ::-1].copy()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of arrays that are not writable
        several = policy(np.broadcast_to(image, (2, *image.shape)))
    np.testing.assert_array_equal(several, policy(np.stack([image, image])))


def test_parts_of_observations_are_found_by_the_space():
    policy, obs = policy_of("dict"), sample_of("dict")
    expected = policy(obs)
    np.testing.assert_array_equal(policy(dict(reversed(obs.items()))), expected)
    np.testing.assert_array_equal(policy({key: np.asarray(part).tolist() for key, part in obs.items()}), expected)
    batch = {key: np.stack([part, part]) for key, part in reversed(obs.items())}
    np.testing.assert_allclose(policy(batch)[1], expected, rtol=1e-5)  # two rows, then one
    policy, obs = policy_of("tuple"), sample_of("tuple")
    np.testing.assert_array_equal(policy(list(obs)), policy(obs))
    policy, obs = policy_of("box"), sample_of("box")
    np.testing.assert_array_equal(policy(tuple(map(tuple, obs.tolist()))), policy(obs))


DICT, TUPLE = (sample_of(name) for name in ("dict", "tuple"))
REFUSED = [
    ("image", np.zeros((37, 37, 3), np.uint8), r"have shape \(37, 37, 3\), the policy was trained on \(36, 36, 3\)"),
    ("image", np.zeros((2, 39, 39, 3), np.uint8), r"have shape \(39, 39, 3\), the policy was trained on"),
    ("image", np.full((36, 36, 3), 0.5), "must be uint8"),
    ("image", np.full((36, 36, 3), 300), "must be uint8"),
    ("box", np.zeros((2, 2, 2)), r"have shape \(2, 2\), the policy was trained on \(2, 3\)"),
    ("box", np.zeros((3, 2), np.float32), r"have shape \(3, 2\), the policy was trained on \(2, 3\)"),
    ("box", torch.zeros(3, 2), r"have shape \(3, 2\), the policy was trained on \(2, 3\)"),
    ("box", [[0, 1], [0]], "no observations of Box"),
    ("choice", 99, r"not in Discrete\(5, start=2\)"),
    ("choice", [2, 1], r"not in Discrete\(5, start=2\)"),
    ("choice", torch.tensor([7]), r"not in Discrete\(5, start=2\)"),
    ("choice", 2.7, r"must be int64 as in Discrete"),
    ("dict", {**DICT, "image": np.zeros((13, 13, 1), np.uint8)}, r"at 'image' have shape \(13, 13, 1\), .* \(12, 12"),
    ("dict", {**DICT, "b": [0, 1]}, r"at 'b' have shape \(2,\); to fit the other parts it must be \(\)"),
    ("dict", {"a": DICT["a"]}, "no observations of Dict"),
    ("dict", DICT["a"], "no observations of Dict"),
    ("tuple", TUPLE[:1], "no observations of Tuple"),
    ("tuple", 3, "no observations of Tuple"),
    ("tuple", (TUPLE[0], [1, 6]), "at '1' are not in MultiDiscrete"),
]


@pytest.mark.parametrize(("name", "obs", "says"), REFUSED)
def test_what_is_no_observation_of_the_space_is_refused(name, obs, says):
    for call in (policy_of(name), policy_of(name).predict):
        with pytest.raises(SpaceError, match=says):
            call(obs)


def test_predict_says_that_it_takes_batches():
    with pytest.raises(SpaceError, match=r"predict takes a batch of observations, this is one"):
        policy_of("box").predict(sample_of("box"))


@pytest.mark.parametrize(
    ("obs", "mask"),
    [(np.zeros(4), [True]), (np.zeros(4), [[True, False]] * 3), (np.zeros((1, 4)), [[True, False]] * 3),
     (np.zeros((2, 4)), [True, False]), (np.zeros((2, 4)), [[True, False], [True]])],
)  # fmt: skip
def test_masks_need_one_row_per_observation_and_one_entry_per_action(obs, mask):
    trainer = PPO("CartPole-v1", PPOConfig(**SMALL))
    trainer.close()
    with pytest.raises(SpaceError, match="masks must have"):
        trainer.policy(obs, mask=mask)


def test_masks_of_actions_that_are_no_choices_are_refused():
    trainer = SAC("Pendulum-v1", SOFT)
    trainer.close()
    with pytest.raises(SpaceError, match="masks are for choices, the actions of this policy are Box"):
        trainer.policy(np.zeros(3), mask=[False])


class Sums(torch.nn.Module):
    """Acts by the sum of the observation. It is its own head."""

    head = property(lambda self: self)

    def act(self, obs, state, began, mask, generator):
        return obs.sum(-1), None

    def to_env(self, actions):
        return actions.numpy()


def test_a_policy_without_a_space_takes_what_its_network_takes():
    np.testing.assert_array_equal(Policy(Sums(), None)(np.ones((2, 3))), [3, 3])
