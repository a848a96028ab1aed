"""Policies that choose what is no action: nothing is indexed by it, the envs say so and need a reset."""

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.kernels.native_kernels import Walk
from vecenv.errors import InvalidAction, KernelError, NotResetError
from vecenv.kernel.language.reads import reads_of


@vecenv.kernel("Steer-v0")
class Steer:
    """Reads as many numbers as the space has actions; one further would be another env's."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,)), spaces.MultiDiscrete([3, 2], start=[0, 4])
    state = {"seen": (np.int64, 3), "x": float}

    def reset(s, rng, p):
        s.x = rng.random()

    def step(s, action, rng, p):
        s.seen[action[0]] += 1
        s.x += action[1]
        return s.x, False

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = s.seen[0]


def far_left(obs):
    return -1


def halves(obs):
    return obs[0] * 0.5


def rarely_wrong(obs, action):
    action[0] = 3 if obs[0] > 20.0 else 1
    action[1] = 5


def right(obs, action):
    action[0] = 2 if obs[1] < 3.0 else 0
    action[1] = 4


@pytest.mark.parametrize(("definition", "policy"), [(Walk, far_left), (Steer, rarely_wrong)])
@pytest.mark.parametrize("count", [3, 2500])
def test_a_policy_that_leaves_the_space_is_an_invalid_action(definition, policy, count):
    with vecenv.make(definition, count, workers=2) as envs:
        envs.reset(seed=0)
        with pytest.raises(InvalidAction, match="policy"):
            envs.rollout(policy=policy, steps=30)
        with pytest.raises(NotResetError):
            envs.step(envs.action_space.sample())
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())


def test_a_policy_that_stays_in_the_space_is_none():
    with vecenv.make(Steer, 4) as envs, vecenv.make(Steer, 4) as other:
        envs.reset(seed=0)
        obs, _ = other.reset(seed=0)
        rollout = envs.rollout(policy=right, steps=9)
        for turn in range(9):
            chosen = np.zeros((4, 2), np.int64)
            for row in range(4):
                right(obs[row], chosen[row])
            obs = other.step(chosen)[0]
            assert np.array_equal(rollout.actions[turn], chosen)
            assert np.array_equal(rollout.obs[turn], obs)
        assert np.array_equal(envs.state.seen, other.state.seen)


def test_a_policy_of_another_type_than_the_actions_is_refused():
    with vecenv.make(Walk, 3) as envs:
        envs.reset(seed=0)
        with pytest.raises(KernelError):
            envs.rollout(policy=halves, steps=3)
        envs.step(np.zeros(3, np.int64))  # nothing was run


WEIGHTS = np.array([0.0, 1.0])


class Settings:
    threshold = 0.5


def by_weights(obs):
    return 1 if WEIGHTS[0] * obs[0] + WEIGHTS[1] > Settings.threshold else 0


def by_helper(obs):
    return by_weights(obs)


def by_number(chosen):
    def policy(obs):
        return chosen

    return policy


def test_a_policy_whose_values_change_is_compiled_again():
    """Code is held ready for as long as a policy reads the same values."""
    with vecenv.make(Walk, 3) as envs:
        envs.reset(seed=0)
        assert (envs.rollout(policy=by_helper, steps=2).actions == 1).all()
        held = envs.engine._compiled_policy(by_helper)
        WEIGHTS[1] = 0.0
        try:
            assert (envs.rollout(policy=by_helper, steps=2).actions == 0).all()
        finally:
            WEIGHTS[1] = 1.0
        assert envs.engine._compiled_policy(by_helper) is held


def test_what_a_helper_of_a_policy_reads_is_noticed(monkeypatch):
    before = reads_of(by_helper)
    monkeypatch.setattr(Settings, "threshold", 2.0)
    assert reads_of(by_helper) != before
    monkeypatch.undo()
    assert reads_of(by_helper) == before


def test_code_of_few_policies_is_held_ready():
    """A policy whose numbers are searched for is another one each time."""
    with vecenv.make(Walk, 3) as envs:
        envs.reset(seed=0)
        for number in range(12):
            rollout = envs.rollout(policy=by_number(number % 2), steps=1)
            assert (rollout.actions == number % 2).all()
        assert len(envs.engine._policies) == 8


def test_what_a_policy_reads_is_compared_in_its_place():
    def made(first, second, third):
        def policy(obs):
            return first + second + third

        return policy

    policy = made(1, 1, 2)
    before = reads_of(policy)
    assert reads_of(policy) == before
    cells = dict(zip(policy.__code__.co_freevars, policy.__closure__, strict=True))
    cells["second"].cell_contents = 2
    assert reads_of(policy) != before
    assert reads_of(made(1, 1, 2)) != before
