"""Laws of seeding: one number per row that depends on nothing but the seed and the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import PLAIN, SPACES, SampleEnv, assert_same, make, on_every_engine
from vecenv._batch.seeding import NO_SEED, spawn, spread
from vecenv.errors import SpaceError

SEEDS = st.integers(0, 2**63 - 100)
COUNTS = st.integers(1, 50)
HOWS = st.sampled_from(["gymnasium", "spawn"])


@given(SEEDS, COUNTS)
def test_gymnasium_seeding_counts_upwards(seed, count):
    assert spread(seed, count).tolist() == [seed + row for row in range(count)]


@given(SEEDS, COUNTS, COUNTS, HOWS)
def test_more_envs_do_not_change_the_seeds_of_the_first(seed, fewer, more, how):
    assert spread(seed, fewer + more, how)[:fewer].tolist() == spread(seed, fewer, how).tolist()


@given(SEEDS, COUNTS, HOWS)
def test_seeds_are_int64_and_never_negative(seed, count, how):
    seeds = spread(seed, count, how)
    assert seeds.dtype == np.int64
    assert (seeds >= 0).all()


@given(st.integers(0, 2**31 - 2), st.integers(1, 200))
def test_spawned_seeds_of_neighbouring_seeds_never_overlap(seed, count):
    ours, theirs = spread(seed, count, "spawn").tolist(), spread(seed + 1, count, "spawn").tolist()
    assert len({*ours, *theirs}) == 2 * count


def test_spawned_seeds_of_a_hundred_runs_are_all_different():
    every = [number for seed in range(100) for number in spread(seed, 100, "spawn").tolist()]
    assert len(set(every)) == 10_000


@given(SEEDS, st.integers(0, 50), st.integers(0, 5))
def test_spawn_is_numpys_seed_sequence(seed, row, restart):
    expected = np.random.SeedSequence(seed, spawn_key=(row, restart)).generate_state(1, np.uint64)[0]
    assert spawn(seed, row, restart) == int(expected) // 2


@pytest.mark.parametrize(
    "kind", [int, np.int64, np.int32, np.uint8, np.uint64, np.array], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("how", ["gymnasium", "spawn"])
def test_integers_of_any_kind_mean_the_same(kind: Callable[[int], Any], how):
    assert spread(kind(7), 3, how).tolist() == spread(7, 3, how).tolist()


def test_none_seeds_no_row():
    assert spread(None, 3).tolist() == [NO_SEED] * 3


@pytest.mark.parametrize(
    "seeds", [[5, None, 7], (5, None, 7), np.array([5, None, 7], object), [np.uint8(5), None, np.int64(7)]], ids=str
)
@pytest.mark.parametrize("how", ["gymnasium", "spawn"])
def test_given_seeds_are_used_as_they_are_and_none_seeds_nothing(seeds, how):
    assert spread(seeds, 3, how).tolist() == [5, NO_SEED, 7]


@pytest.mark.parametrize("largest", [2**63 - 1])
def test_the_largest_seed_is_usable_and_one_more_is_not(largest):
    assert spread(largest, 1).tolist() == [largest]
    assert spread([largest, 0], 2).tolist() == [largest, 0]
    assert spread(largest, 2, "spawn").shape == (2,)
    with pytest.raises(SpaceError, match=r"at most 2\*\*63 - num_envs"):
        spread(largest, 2)
    with pytest.raises(SpaceError, match="got 9223372036854775808"):
        spread(largest + 1, 1)


@pytest.mark.parametrize(
    "seed",
    ["1", b"1", 1.0, True, np.bool_(False), {}, {1, 2, 3}, [1, 2], [1, 2, 3.0], [[1], 2, 3], [1, True, 2], object],
    ids=str,
)
def test_anything_else_is_refused(seed):
    with pytest.raises(SpaceError, match=r"seed|length"):
        spread(seed, 3)


# --- through the front -----------------------------------------------------------------------------------------------


def sample_env() -> SampleEnv:
    return SampleEnv(SPACES["box-float32"], PLAIN)


@on_every_engine
@pytest.mark.parametrize("how", ["gymnasium", "spawn"])
def test_env_i_of_six_is_env_i_of_three(engine, how):
    with make(engine, sample_env, 3, seeding=how) as few, make(engine, sample_env, 6, seeding=how) as many:
        assert_same(many.reset(seed=4)[0][:3], few.reset(seed=4)[0])
        for _ in range(20):
            assert_same(many.step([1] * 6)[0][:3], few.step([1] * 3)[0])


@on_every_engine
@pytest.mark.parametrize("how", ["gymnasium", "spawn"])
def test_each_env_is_the_env_alone_with_its_seed(engine, how):
    with make(engine, sample_env, 3, seeding=how) as envs:
        obs, _ = envs.reset(seed=4)
        for row, seed in enumerate(spread(4, 3, how).tolist()):
            assert_same(obs[row], sample_env().reset(seed=seed)[0])
        assert envs.np_random_seed == tuple(spread(4, 3, how).tolist())


@on_every_engine
def test_reset_without_a_seed_goes_on_with_the_stream_of_the_seeded_one(engine):
    with make(engine, sample_env, 3) as first, make(engine, sample_env, 3) as second:
        for envs in (first, second):
            envs.reset(seed=4)
        assert_same(first.reset(), second.reset())
        assert_same(first.reset(seed=[9, None, None]), second.reset(seed=[9, None, None]))


@on_every_engine
def test_a_seed_is_used_once(engine):
    with make(engine, sample_env, 2) as envs:
        seeded = envs.reset(seed=4)[0]
        assert not np.array_equal(envs.reset()[0], seeded)
        assert_same(envs.reset(seed=4)[0], seeded)
