"""Policies that choose what is no action: nothing is indexed by it, the envs say so and need a reset."""

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.kernels.native_kernels import Walk
from vecenv.errors import ConfigError, InvalidAction, KernelError, NotResetError
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
        held = envs.engine._policies.code_of(by_helper, lambda: envs.engine._columns)
        WEIGHTS[1] = 0.0
        try:
            assert (envs.rollout(policy=by_helper, steps=2).actions == 0).all()
        finally:
            WEIGHTS[1] = 1.0
        assert envs.engine._policies.code_of(by_helper, lambda: envs.engine._columns) is held


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


def by_default(obs):
    return number_or_one()


def number_or_one(number=1):
    return number


def test_a_default_of_a_helper_is_noticed():
    with vecenv.make(Walk, 3) as envs, vecenv.make(Walk, 3) as fresh:
        envs.reset(seed=0)
        fresh.reset(seed=0)
        assert (envs.rollout(policy=by_default, steps=1).actions == 1).all()
        number_or_one.__defaults__ = (0,)
        try:
            rollouts = [one.rollout(policy=by_default, steps=1) for one in (envs, fresh)]
        finally:
            number_or_one.__defaults__ = (1,)
        assert [rollout.actions.tolist() for rollout in rollouts] == [[[0, 0, 0]]] * 2


GAIN = 1.0


@vecenv.kernel("Shelf-v0")
class Shelf:
    """Shows the parameters in its observation, from where policies take indices."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(3)
    state = {"x": float}
    bounds = {"bounded": (0, 1000)}

    class Params:
        place = 1
        bounded = 0

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x += GAIN * action
        return s.x, False

    def observe(s, obs, p):
        obs[0] = p.place
        obs[1] = p.bounded


ACTIONS = np.array([0, 1, 2, 1])


def from_shelf(obs):
    return ACTIONS[int(obs[0] + obs[1])]


def into_shelf(obs, action, rng):
    places = np.zeros(4)
    places[int(obs[0])] = 1.0
    action[0] = int(places[3]) + rng.integers(0, 1)


def always_two(obs):
    return 2


@pytest.mark.parametrize("policy", [from_shelf, into_shelf])
def test_a_policy_that_is_held_ready_is_tried_again_after_set_attr(policy):
    """Native code would read other memory: a fresh env refuses such a parameter, so does one that ran before."""
    with vecenv.make(Shelf, 3) as envs, vecenv.make(Shelf, 3, place=40) as fresh:
        envs.reset(seed=0)
        fresh.reset(seed=0)
        envs.rollout(policy=policy, steps=2)
        envs.set_attr("place", 3)
        envs.reset(seed=0)
        envs.rollout(policy=policy, steps=2)
        envs.set_attr("place", [3, 40, 3])
        envs.reset(seed=0)
        for one in (fresh, envs, envs):
            with pytest.raises(KernelError, match=f"{policy.__name__}, line .*IndexError"):
                one.rollout(policy=policy, steps=2)
        envs.step(np.zeros(3, np.int64))  # nothing was run
        envs.set_attr("place", 1)
        envs.reset(seed=0)
        envs.rollout(policy=policy, steps=2)


def far_off(envs):
    state = envs.get_state()
    for prefix in "PB":
        state.columns[f"{prefix}_place"][:] = 40
    envs.set_state(state)


@pytest.mark.parametrize(
    "change",
    [
        lambda envs: envs.reset(options={"place": 40}),
        lambda envs: (envs.set_attr("bounded", 40), envs.reset(seed=0)),
        far_off,
    ],
    ids=["options", "within its bounds", "set_state"],
)
def test_a_policy_is_tried_again_after_any_change_of_parameters(change):
    with vecenv.make(Shelf, 3) as envs:
        envs.reset(seed=0)
        envs.rollout(policy=from_shelf, steps=2)
        change(envs)
        with pytest.raises(KernelError, match="IndexError"):
            envs.rollout(policy=from_shelf, steps=2)


def test_a_policy_in_checked_code_needs_no_trial():
    with vecenv.make(Shelf, 3, place=40, check="bounds") as envs:
        envs.reset(seed=0)
        with pytest.raises(vecenv.errors.KernelFault, match="out of range"):
            envs.rollout(policy=from_shelf, steps=2)


def test_a_new_policy_meets_the_constants_that_the_envs_were_made_with(monkeypatch):
    """Steps and rollouts are the same code: constants of a kernel are those of `make`."""
    with vecenv.make(Shelf, 3) as envs:
        envs.reset(seed=0)
        envs.rollout(policy=from_shelf, steps=1)
        monkeypatch.setitem(globals(), "GAIN", 10.0)
        envs.reset(seed=0)
        assert envs.rollout(policy=from_shelf, steps=1).reward.tolist() == [[1.0] * 3]
        with pytest.raises(ConfigError, match=r"Shelf-v0.*make them again"):
            envs.rollout(policy=always_two, steps=1)
        with vecenv.make(Shelf, 3) as fresh:
            fresh.reset(seed=0)
            assert fresh.rollout(policy=always_two, steps=1).reward.tolist() == [[20.0] * 3]
        monkeypatch.undo()
        envs.reset(seed=0)
        assert envs.rollout(policy=always_two, steps=1).reward.tolist() == [[2.0] * 3]
