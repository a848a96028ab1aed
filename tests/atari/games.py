"""What the tests of Atari games share: recorded actions, and the game in Python that native ones are compared with."""

import numpy as np

import vecenv


def actions(count, steps, number, seed=0):
    """A recorded sequence of actions: [steps, count]."""
    return np.random.default_rng(seed).integers(0, number, (steps, count))


def pair(game, count=3, **kwargs):
    """The same games twice: native, and in Python in the sync engine, which is the reference."""
    kwargs = {"preprocessing": True, **kwargs}
    return vecenv.make(game, count, engine="ale", **kwargs), vecenv.make(game, count, engine="sync", **kwargs)


def same(one, other):
    """Assert that two results (obs, reward, flags, infos) are equal to the last bit, dtypes included."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert sorted(one) == sorted(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for left, right in zip(one, other, strict=True):
            same(left, right)
    else:
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)
