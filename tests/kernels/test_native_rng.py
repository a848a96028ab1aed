"""Where the streams of native envs begin: as Gymnasium's, whatever the seed, and with a seed that can be asked for."""

import numpy as np
import pytest
from gymnasium.utils import seeding

import vecenv
from tests.kernels.native_kernels import Walk

SEEDS = [0, 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1]


def test_a_seed_starts_the_stream_that_gymnasium_starts():
    with vecenv.make(Walk, len(SEEDS), engine="compiled") as envs:
        envs.reset(seed=SEEDS)
        for seed, x, stream in zip(SEEDS, envs.state.x, envs.np_random, strict=True):
            expected, _ = seeding.np_random(seed)
            assert x == expected.uniform(-0.05, 0.05)
            assert stream.bit_generator.state == expected.bit_generator.state
        assert envs.np_random_seed == tuple(SEEDS)


@pytest.mark.parametrize("looked_at_before", [False, True])
def test_an_env_without_a_seed_says_which_one_it_took(looked_at_before):
    with vecenv.make(Walk, 3, engine="compiled") as envs, vecenv.make(Walk, 3, engine="compiled") as other:
        before = [stream.uniform(-0.05, 0.05) for stream in envs.np_random] if looked_at_before else None
        envs.reset()
        seeds = envs.np_random_seed
        assert len(set(seeds)) == 3
        assert min(seeds) >= 0
        other.reset(seed=list(seeds))
        assert np.array_equal(envs.state.x, other.state.x)
        assert before is None or envs.state.x.tolist() == before
