"""Wrappers of rewards do what Gymnasium's do around each single env."""

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.wrappers.driving import assert_same, drive, in_every_case, make
from vecenv.errors import ConfigError, SpaceError
from vecenv.wrappers import ClipReward, NormalizeReward, TransformReward, VectorizeTransformReward

single = gymnasium.wrappers

PAIRS = {
    "clip": (lambda envs: ClipReward(envs, 0.25, 0.5), lambda env: single.ClipReward(env, 0.25, 0.5)),
    "clip above": (lambda envs: ClipReward(envs, max_reward=0.5), lambda env: single.ClipReward(env, max_reward=0.5)),
    "function": (
        lambda envs: TransformReward(envs, lambda reward: reward * 2 + 1),
        lambda env: single.TransformReward(env, lambda reward: reward * 2 + 1),
    ),
    "vectorized": (
        lambda envs: VectorizeTransformReward(envs, single.TransformReward, func=lambda reward: -reward),
        lambda env: single.TransformReward(env, lambda reward: -reward),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@in_every_case
def test_rewards_are_those_of_wrapped_single_envs(name, engine, mode, way):
    outer, inner = PAIRS[name]
    with make("sync", "CartPole-v1", autoreset=mode, wrappers=[inner]) as oracle:
        expected = drive(oracle, way)
    with make(engine, "CartPole-v1", autoreset=mode) as envs:
        assert_same(drive(outer(envs), way), expected)


def reference(results, envs, gamma=0.99, epsilon=1e-8):
    """Discounted returns and their moments, transition by transition. `results` are (rows, ops, reward, terminated)."""
    moments = gymnasium.wrappers.utils.RunningMeanStd(shape=(), dtype=np.float64)
    returns = np.zeros(envs)
    scaled = []
    for rows, valid, began, reward, terminated in results:
        if valid.any():
            at = rows[valid]
            returns[at] = returns[at] * gamma * (1 - terminated[valid]) + reward[valid]
            moments.update(returns[at])
        scaled.append(reward / np.sqrt(moments.var + epsilon))
        returns[rows[began]] = 0
    return scaled, moments


@in_every_case
def test_normalize_reward_counts_transitions_and_nothing_else(engine, mode, way):
    with make(engine, "CartPole-v1", autoreset=mode) as envs:
        wrapped = NormalizeReward(envs)
        seen = []
        learn = wrapped.transform.exchange

        def noted(exchange):
            before = exchange.reward, exchange.terminated
            seen.append((exchange.rows, exchange.valid, exchange.began, *before))
            learn(exchange)

        wrapped.transform.exchange = noted
        results = drive(wrapped, way)
        scaled, moments = reference(seen, 3)
        assert wrapped.return_rms.count == pytest.approx(moments.count)
        assert wrapped.return_rms.count == pytest.approx(1e-4 + sum(valid.sum() for _, valid, *_ in seen))
        np.testing.assert_allclose(wrapped.return_rms.var, moments.var)
        for result, want in zip(results, scaled, strict=True):
            if len(result) == 5:
                np.testing.assert_allclose(result[1], want)


def test_normalize_reward_is_gymnasium_s_until_an_episode_ends():
    theirs = gymnasium.wrappers.vector.NormalizeReward(gymnasium.make_vec("Pendulum-v1", 3, vectorization_mode="sync"))
    expected = drive(theirs, steps=20)
    theirs.close()
    with make("sync", "Pendulum-v1") as envs:
        assert_same(drive(NormalizeReward(envs), steps=20), expected, rtol=1e-4)  # theirs are float32 returns


def test_statistics_of_same_transitions_are_the_same_in_every_mode():
    counts = {}
    for mode in ("next-step", "same-step"):
        with make("compiled", "CartPole-v1", 1, autoreset=mode) as envs:
            wrapped = NormalizeReward(envs)
            wrapped.reset(seed=1)
            for _ in range(200):  # always the same action: where resets are steps does not matter
                wrapped.step(np.array([1]))
                if wrapped.return_rms.count > 99:
                    break
            counts[mode] = float(wrapped.return_rms.var), float(wrapped.return_rms.count)
    assert counts["next-step"] == counts["same-step"]


def test_frozen_statistics_are_used_but_do_not_change():
    with make("compiled", "CartPole-v1") as envs:
        wrapped = NormalizeReward(envs)
        drive(wrapped, steps=10)
        wrapped.update_running_mean = False
        before = wrapped.return_rms.copy()
        _, reward, *_ = wrapped.step(np.array([0, 1, 0]))
        assert wrapped.return_rms.count == before.count
        np.testing.assert_allclose(reward, 1 / np.sqrt(before.var + 1e-8))


def test_state_goes_on_where_it_was():
    with make("compiled", "CartPole-v1") as envs, make("compiled", "CartPole-v1") as others:
        one, other = NormalizeReward(envs), NormalizeReward(others)
        drive(one, steps=10)
        other.load_state_dict(one.state_dict())
        assert float(other.return_rms.var) == float(one.return_rms.var)
        np.testing.assert_array_equal(other.transform.returns, one.transform.returns)
    with make("compiled", "CartPole-v1", 2) as few:
        wrong = NormalizeReward(few)
        with pytest.raises(SpaceError, match="3 envs, these are 2"):
            wrong.load_state_dict(one.state_dict())
        assert wrong.return_rms.count == pytest.approx(1e-4)


def test_bad_arguments_are_named():
    with make("compiled", "CartPole-v1") as envs:
        with pytest.raises(ConfigError, match="at least one"):
            ClipReward(envs)
        with pytest.raises(ConfigError, match="at most"):
            ClipReward(envs, 2, 1)
        with pytest.raises(ConfigError, match="gamma"):
            NormalizeReward(envs, gamma=1.1)
        with pytest.raises(ConfigError, match="epsilon"):
            NormalizeReward(envs, epsilon=0)
        wrapped = TransformReward(envs, lambda reward: reward[:1])
        wrapped.reset()
        with pytest.raises(SpaceError, match="one reward per env"):
            wrapped.step(np.array([0, 1, 0]))


def test_normalized_rewards_are_float64_whatever_was_normalized():
    envs = vecenv.make("CartPole-v1", 2)
    envs = NormalizeReward(TransformReward(envs, lambda reward: reward.astype(np.float32)))
    envs.reset(seed=0)
    assert envs.step(np.array([0, 1]))[1].dtype == np.float64
    envs.close()
