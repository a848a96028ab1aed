"""Returns against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecenv.buffers import discounted_returns, gae, n_step_returns, v_trace
from vecenv.errors import ConfigError, SpaceError


@st.composite
def rollouts(draw):
    length, count = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    chance = draw(st.sampled_from([0.0, 0.2, 0.7]))
    shape = (length, count)
    given = {name: generator.normal(size=shape).astype(dtype) for name in ("reward", "value", "final_value")}
    given["last_value"] = generator.normal(size=count).astype(dtype)
    given |= {name: generator.random(shape) < chance for name in ("terminated", "truncated")}
    if draw(st.booleans()):
        del given["final_value"]
    return given, draw(st.floats(0, 1)), draw(st.floats(0, 1)), generator


def after(given, time, env):
    """The value of the state that a transition led to."""
    if given["terminated"][time, env]:
        return type(given["value"][0, 0])(0)
    if given["truncated"][time, env] and "final_value" in given:
        return given["final_value"][time, env]
    return following(given, "value", time, env)


def following(given, name, time, env):
    return given[name][time + 1, env] if time + 1 < len(given[name]) else given["last_value"][env]


def ended(given, time, env):
    return given["terminated"][time, env] or given["truncated"][time, env]


def places(given, backwards=True):
    length, count = given["reward"].shape
    return [(time, env) for time in (reversed(range(length)) if backwards else range(length)) for env in range(count)]


@given(rollouts(), st.booleans())
def test_gae_is_the_plain_recursion_to_the_last_bit(rollout, masked):
    given, gamma, lam, generator = rollout
    number = given["value"].dtype.type
    valid = generator.random(given["value"].shape) < 0.8 if masked else np.ones(given["value"].shape, bool)
    advantages, returns = gae(**given, gamma=gamma, lam=lam, valid=valid if masked else None)
    expected, ahead = np.zeros_like(given["value"]), np.zeros_like(given["last_value"])
    for time, env in places(given):
        later = number(0) if ended(given, time, env) else ahead[env]
        ahead[env] = later  # what is no transition is passed over
        if valid[time, env]:
            delta = given["reward"][time, env] + number(gamma) * after(given, time, env) - given["value"][time, env]
            ahead[env] = expected[time, env] = delta + number(gamma * lam) * later
    np.testing.assert_array_equal(advantages, expected)
    np.testing.assert_array_equal(returns, expected + given["value"])


@given(rollouts())
def test_discounted_returns_are_the_plain_recursion_to_the_last_bit(rollout):
    given, gamma, _, _ = rollout
    del given["value"]
    if "final_value" not in given:
        given["truncated"][:] = False
    number, expected = given["last_value"].dtype.type, np.zeros_like(given["reward"])
    given_after = {**given, "value": expected}
    for time, env in places(given):
        expected[time, env] = given["reward"][time, env] + number(gamma) * after(given_after, time, env)
    np.testing.assert_array_equal(discounted_returns(**given, gamma=gamma), expected)


def test_discounted_returns_need_to_know_how_truncated_episodes_go_on():
    rows = {"reward": np.array([1.0, 1.0, 100.0]), "last_value": np.array(0.0), "terminated": np.zeros(3, bool)}
    rows["truncated"] = np.array([False, True, False])
    with pytest.raises(ConfigError, match="1 of these rows truncated an episode; pass final_value"):
        discounted_returns(**rows, gamma=1.0)
    found = discounted_returns(**rows, gamma=1.0, final_value=np.zeros(3))
    np.testing.assert_array_equal(found, [2.0, 1.0, 100.0])


def test_rewards_without_an_axis_for_time_are_refused():
    ones = np.ones((1, 2))
    with pytest.raises(SpaceError, match="reward has shape"):
        n_step_returns(1.0, ones, ones[0], ones > 1, ones > 1, gamma=0.9, n=3)  # type: ignore[arg-type]


@given(rollouts(), st.integers(1, 15))
def test_n_step_returns_stop_at_the_end_of_an_episode(rollout, n):
    given, gamma, _, _ = rollout
    found = n_step_returns(**given, gamma=gamma, n=n)
    number = given["value"].dtype.type
    for begin, env in places(given):
        total, factor, time = number(0), number(1), begin
        while True:
            total += factor * given["reward"][time, env]
            factor *= number(gamma)
            if ended(given, time, env) or time + 1 == len(found) or time + 1 - begin == n:
                break
            time += 1
        if not given["terminated"][time, env]:
            total += factor * after(given, time, env)
        assert found[begin, env] == total


@given(rollouts(), st.floats(0.1, 2), st.floats(0.1, 2))
def test_v_trace_is_the_sum_of_its_paper(rollout, rho, c):
    """Remark 1 of Espeholt et al. 2018, summed forwards. In float64; the recursion adds up in another order."""
    given, gamma, lam, generator = rollout
    given = {name: array.astype(float) if array.dtype != bool else array for name, array in given.items()}
    ratio = np.exp(generator.normal(size=given["value"].shape))
    advantages, targets = v_trace(**given, ratio=ratio, gamma=gamma, lam=lam, rho=rho, c=c)
    expected = given["value"].copy()
    for begin, env in places(given):
        factor, time = 1.0, begin
        while time < len(expected):
            delta = given["reward"][time, env] + gamma * after(given, time, env) - given["value"][time, env]
            expected[begin, env] += factor * min(rho, ratio[time, env]) * delta
            factor *= gamma * lam * min(c, ratio[time, env])
            if ended(given, time, env):
                break
            time += 1
    np.testing.assert_allclose(targets, expected, rtol=1e-10, atol=1e-12)
    for time, env in places(given):
        goes_on = not ended(given, time, env) and time + 1 < len(expected)
        then = expected[time + 1, env] if goes_on else after(given, time, env)
        delta = given["reward"][time, env] + gamma * then - given["value"][time, env]
        np.testing.assert_allclose(advantages[time, env], min(rho, ratio[time, env]) * delta, rtol=1e-9, atol=1e-11)


def test_a_nan_behind_an_end_stays_there():
    value = np.array([[1.0], [np.nan]])
    yes, no = np.array([[True], [False]]), np.zeros((2, 1), bool)
    advantages, _ = gae(np.ones((2, 1)), value, np.zeros(1), yes, no, gamma=0.9, lam=0.9)
    assert advantages[0, 0] == 0.0
    assert np.isnan(advantages[1, 0])


def test_any_axes_may_follow_time():
    generator = np.random.default_rng(0)
    reward, value, no = generator.normal(size=(5, 2, 3)), generator.normal(size=(5, 2, 3)), np.zeros((5, 2, 3), bool)
    deep = gae(reward, value, value[0], no, no, gamma=0.9, lam=0.9)[0]
    flat = gae(
        *(x.reshape(5, 6) for x in (reward, value)), value[0].ravel(), *[no.reshape(5, 6)] * 2, gamma=0.9, lam=0.9
    )
    np.testing.assert_array_equal(deep.reshape(5, 6), flat[0])
    alone = gae(reward[:, 0, 0], value[:, 0, 0], value[0, 0, 0], no[:, 0, 0], no[:, 0, 0], gamma=0.9, lam=0.9)[0]
    np.testing.assert_array_equal(alone, deep[:, 0, 0])


def test_shapes_that_do_not_fit_are_refused():
    no = np.zeros((3, 2), bool)
    with pytest.raises(SpaceError, match=r"last_value has shape \(3,\), but the values need \(2,\)"):
        gae(np.ones((3, 2)), np.ones((3, 2)), np.ones(3), no, no, gamma=0.9, lam=0.9)
    with pytest.raises(ConfigError, match="n must be an int >= 1"):
        n_step_returns(np.ones((3, 2)), np.ones((3, 2)), np.ones(2), no, no, gamma=0.9, n=0)
