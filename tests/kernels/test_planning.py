"""Planning: copies with random streams of their own, and policies that draw."""

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.kernels.test_native import equal
from vecenv._batch.random_state import CLONES, POLICIES, fresh_words
from vecenv.errors import ConfigError, KernelError, SpaceError
from vecenv.kernel.language.snapshot import generator
from vecenv.testing import policy_streams

STEPS = 30
WEIGHTS = np.array([0.25, 0.75])


@vecenv.kernel("DriftToPlan-v0", max_episode_steps=12)
class Drift:
    """Its future is random, its reset draws nothing."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Box(-9, 9, (2,), np.float64)
    state = {"x": float}

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x += rng.normal() + action[0]
        return rng.random() * action[1], s.x > 5.0

    def observe(s, obs, p):
        obs[0] = s.x


def blur(x, rng):
    return x + rng.uniform(-1.0, 1.0)


def explore(obs, action, rng):
    action[0] = blur(-obs[0] / 2, rng)
    action[1] = rng.choice(2, p=WEIGHTS) if rng.random() < 0.5 else rng.integers(0, 3)


def plan(obs, action):
    action[0] = -obs[0]
    action[1] = 1.0


NOTHING = np.zeros((8, 2))


# --- clone -----------------------------------------------------------------------------------------------------------


def test_copies_with_a_seed_do_not_see_the_true_future():
    with vecenv.make(Drift, 8) as envs:
        envs.reset(seed=0)
        envs.clone(0, np.arange(1, 8))
        assert len({*envs.step(NOTHING)[0][:, 0].tolist()}) == 1
        for seed in (0, 1):  # 0 is the seed of the source too
            envs.clone(0, np.arange(1, 8), seed=seed)
            assert len({*envs.state.x.tolist()}) == 1
            assert len({*envs.step(NOTHING)[0][:, 0].tolist()}) == 8


def test_a_copy_with_a_seed_is_its_source_with_another_stream():
    with vecenv.make(Drift, 4) as envs:
        envs.reset(seed=0)
        envs.step(NOTHING[:4])
        before = envs.get_state([1])
        envs.clone(1, [3, 0], seed=7)
        after = envs.get_state([3, 0])
        streams = fresh_words(7, 2, CLONES)
        assert after.columns["RNG"].tolist() == streams.tolist()
        for name, column in before.columns.items():
            assert name == "RNG" or all(equal(row, column[0]) for row in after.columns[name]), name
        assert equal(envs.get_state([1]).columns, before.columns)
        python = [generator(words) for words in streams]
        obs, reward, *_ = envs.step(np.array([[0.5, 2.0]] * 4))
        for row, numbers in zip((3, 0), python, strict=True):
            assert obs[row, 0] == before.columns["S_x"][0] + (numbers.normal() + 0.5)
            assert reward[row] == numbers.random() * 2.0


def test_the_same_seed_gives_the_same_copies():
    results = []
    for _ in range(2):
        with vecenv.make(Drift, 8) as envs:
            envs.reset(seed=3)
            envs.clone([0, 1], [4, 5], seed=np.int64(2))
            results.append([envs.step(NOTHING)[0] for _ in range(STEPS)])
    assert equal(*results)


def test_streams_of_a_place_do_not_depend_on_how_many_there_are():
    assert fresh_words(5, 9, CLONES)[:4].tolist() == fresh_words(5, 4, CLONES).tolist()
    assert not {*fresh_words(5, 9, CLONES)[:, 0].tolist()} & {*fresh_words(5, 9, POLICIES)[:, 0].tolist()}
    assert fresh_words(None, 2, CLONES).tolist() != fresh_words(None, 2, CLONES).tolist()


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "0", [1, 2]])
def test_wrong_seeds_are_refused_and_change_nothing(seed):
    with vecenv.make(Drift, 3) as envs:
        envs.reset(seed=0)
        before = envs.get_state()
        with pytest.raises(SpaceError, match="seed must be"):
            envs.clone(0, [1, 2], seed=seed)
        with pytest.raises(SpaceError, match="seed must be"):
            envs.rollout(policy=explore, steps=2, seed=seed)
        assert equal(envs.get_state().columns, before.columns)


# --- policies that draw ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_a_policy_that_draws_gives_the_bits_of_its_run_in_python(autoreset):
    with vecenv.make(Drift, 5, autoreset=autoreset) as envs, vecenv.make(Drift, 5, autoreset=autoreset) as other:
        envs.reset(seed=0)
        obs, _ = other.reset(seed=0)
        rollout = envs.rollout(policy=explore, steps=STEPS, seed=9)
        streams = policy_streams(9, 5)
        for turn in range(STEPS):
            chosen = np.zeros((5, 2))
            for row in range(5):
                explore(obs[row], chosen[row], streams[row])
            assert equal(rollout.actions[turn], chosen), turn
            obs, reward, *_ = other.step(chosen)
            assert equal(rollout.obs[turn], obs)
            assert equal(rollout.reward[turn], reward)
        assert equal(envs.get_state().columns, other.get_state().columns)


def test_the_streams_of_a_policy_are_not_those_of_the_envs():
    with vecenv.make(Drift, 4) as envs, vecenv.make(Drift, 4) as other:
        for each in (envs, other):
            each.reset(seed=0)
        noise = envs.rollout(policy=explore, steps=1, seed=0)
        assert len({*noise.actions[0, :, 0].tolist()}) == 4
        other.step(noise.actions[0])
        assert equal(envs.get_state().columns["RNG"], other.get_state().columns["RNG"])


def test_without_a_seed_a_policy_draws_anew_each_time_and_with_one_the_same():
    with vecenv.make(Drift, 4) as envs:
        envs.reset(seed=0)
        start = envs.get_state()
        chosen = []
        for seed in (None, None, 1, 1):
            envs.set_state(start)
            chosen.append(envs.rollout(policy=explore, steps=3, seed=seed).actions.tobytes())
    assert len({*chosen}) == 3
    assert chosen[2] == chosen[3]


def test_results_do_not_depend_on_the_number_of_threads():
    results = []
    for workers in (1, 2):
        with vecenv.make(Drift, 2500, workers=workers) as envs:
            envs.reset(seed=0)
            results.append(envs.rollout(policy=explore, steps=4, seed=5).actions)
    assert equal(*results)


def test_a_seed_is_for_policies_that_draw():
    with vecenv.make(Drift, 3) as envs:
        envs.reset(seed=0)
        for wrong in ({"policy": plan, "steps": 2}, {"actions": np.zeros((2, 3, 2))}):
            with pytest.raises(ConfigError, match=r"seed is for a policy that draws: policy\(obs, rng\)"):
                envs.rollout(**wrong, seed=0)
        envs.step(np.zeros((3, 2)))


def only_rng(rng):
    return rng.random()


def too_many(obs, action, rng, more):
    action[0] = more


def replaced(obs, action, rng):
    rng = 3
    action[0] = rng


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (only_rng, "a policy is policy"),
        (too_many, "a policy is policy"),
        (replaced, "'rng' is the rng of the env and cannot be replaced"),
    ],
)
def test_wrong_policies_are_refused(policy, rule):
    with vecenv.make(Drift, 3) as envs:
        envs.reset(seed=0)
        with pytest.raises(KernelError, match=rule):
            envs.rollout(policy=policy, steps=2)
