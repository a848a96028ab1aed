"""IQM and bootstrap are SciPy's."""

import numpy as np
import pytest
from scipy import stats

from vecenv.evaluation import bootstrap, interquartile_mean
from vecenv.evaluation._statistics import difference, mean


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 30, 101])
def test_the_interquartile_mean_is_scipys_trimmed_mean(count):
    values = np.random.default_rng(count).normal(size=(6, count))
    expected = stats.trim_mean(values, 0.25, axis=-1)
    np.testing.assert_allclose(interquartile_mean(values), expected, rtol=1e-14)  # summed in another order


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_is_scipys_percentile_bootstrap(statistic, confidence):
    values = np.random.default_rng(1).exponential(size=37)
    ours = bootstrap((values,), statistic, confidence=confidence, resamples=999, seed=5)
    theirs = stats.bootstrap(
        (values,),
        lambda sample, axis: statistic(np.moveaxis(sample, axis, -1)),
        confidence_level=confidence,
        n_resamples=999,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    np.testing.assert_allclose(ours, (theirs.low, theirs.high), rtol=1e-13)


def test_the_interval_of_a_difference_is_scipys():
    generator = np.random.default_rng(2)
    first, second = generator.normal(1, 1, 20), generator.normal(0, 2, 31)
    ours = bootstrap((first, second), difference, resamples=500, seed=9)
    theirs = stats.bootstrap(
        (first, second),
        lambda one, other, axis: one.mean(axis) - other.mean(axis),
        n_resamples=500,
        method="percentile",
        rng=np.random.default_rng(9),
    ).confidence_interval
    np.testing.assert_allclose(ours, (theirs.low, theirs.high), rtol=1e-12)


def test_resampling_in_pieces_changes_nothing(monkeypatch):
    values = np.random.default_rng(3).normal(size=50)
    whole = bootstrap((values,), mean, resamples=300)
    monkeypatch.setattr("vecenv.evaluation._statistics._ELEMENTS", 640)
    assert bootstrap((values,), mean, resamples=300) == whole


def test_a_single_value_is_its_own_interval():
    assert bootstrap((np.array([3.5]),), interquartile_mean) == (3.5, 3.5)
