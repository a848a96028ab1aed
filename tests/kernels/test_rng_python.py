"""Random numbers in Python mode: what NumPy's Generator draws, number for number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vecenv.kernel import rng as numbers
from vecenv.kernel.language.fields import FieldError, cells

OPTIONS, WEIGHTS = np.array([2.0, 3.0, 5.0]), np.array([0.2, 0.3, 0.5])
DRAWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "random": (lambda rng: numbers.random(rng), lambda rng: rng.random()),
    "uniform": (lambda rng: numbers.uniform(rng), lambda rng: rng.uniform()),
    "uniform-between": (lambda rng: numbers.uniform(rng, -2.0, 3.0), lambda rng: rng.uniform(-2.0, 3.0)),
    "integers": (lambda rng: numbers.integers(rng, 7), lambda rng: rng.integers(7)),
    "integers-between": (lambda rng: numbers.integers(rng, -3, 4), lambda rng: rng.integers(-3, 4)),
    "normal": (lambda rng: numbers.normal(rng), lambda rng: rng.normal()),
    "normal-scaled": (lambda rng: numbers.normal(rng, 1.0, 2.0), lambda rng: rng.normal(1.0, 2.0)),
    "integers-endpoint": (
        lambda rng: numbers.integers(rng, -3, 4, endpoint=True),
        lambda rng: rng.integers(-3, 4, endpoint=True),
    ),
    "standard-normal": (lambda rng: numbers.standard_normal(rng), lambda rng: rng.standard_normal()),
    "exponential": (lambda rng: numbers.exponential(rng, 2.0), lambda rng: rng.exponential(2.0)),
    "standard-exponential": (lambda rng: numbers.standard_exponential(rng), lambda rng: rng.standard_exponential()),
    "poisson": (lambda rng: numbers.poisson(rng, 3.0), lambda rng: rng.poisson(3.0)),
    "binomial": (lambda rng: numbers.binomial(rng, 9, 0.4), lambda rng: rng.binomial(9, 0.4)),
    "geometric": (lambda rng: numbers.geometric(rng, 0.4), lambda rng: rng.geometric(0.4)),
    "choice-of-tuple": (lambda rng: numbers.choice(rng, (1, 2.5)), lambda rng: rng.choice((1, 2.5))),
    "choice": (lambda rng: numbers.choice(rng, 5), lambda rng: rng.choice(5)),
    "choice-of-array": (lambda rng: numbers.choice(rng, OPTIONS), lambda rng: rng.choice(OPTIONS)),
    "choice-weighted": (lambda rng: numbers.choice(rng, OPTIONS, WEIGHTS), lambda rng: rng.choice(OPTIONS, p=WEIGHTS)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_is_the_generators_and_a_python_number(draw: str) -> None:
    ours, theirs = DRAWS[draw]
    left, right = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(20):
        value = ours(left)
        assert value == theirs(right)
        assert type(value) in (int, float)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64])
@pytest.mark.parametrize("size", [1, 2, 5, 52])
def test_permutation_and_shuffle_write_into_fields(dtype: type, size: int) -> None:
    left, right = np.random.default_rng(3), np.random.default_rng(3)
    ours, theirs = cells(np.zeros(size, dtype)), np.zeros(size, dtype)
    for _ in range(5):
        numbers.permutation(left, ours)
        theirs[:] = right.permutation(size)
        assert ours.tolist() == theirs.tolist()
        numbers.shuffle(left, ours)
        right.shuffle(theirs)
        assert ours.tolist() == theirs.tolist()
    assert left.random() == right.random()


FILLED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "random": (numbers.fill_random, lambda rng, shape: rng.random(shape)),
    "random-out": (lambda rng, out: numbers.random(rng, out=out), lambda rng, shape: rng.random(shape)),
    "uniform": (lambda rng, out: numbers.fill_uniform(rng, out, 2, 3), lambda rng, shape: rng.uniform(2, 3, shape)),
    "normal": (lambda rng, out: numbers.fill_normal(rng, out, 2, 3), lambda rng, shape: rng.normal(2, 3, shape)),
    "standard-normal": (numbers.fill_standard_normal, lambda rng, shape: rng.standard_normal(shape)),
    "exponential": (
        lambda rng, out: numbers.fill_exponential(rng, out, 2),
        lambda rng, shape: rng.exponential(2, shape),
    ),
    "standard-exponential": (numbers.fill_standard_exponential, lambda rng, shape: rng.standard_exponential(shape)),
    "integers": (lambda rng, out: numbers.fill_integers(rng, out, 7), lambda rng, shape: rng.integers(7, size=shape)),
    "poisson": (lambda rng, out: numbers.fill_poisson(rng, out, 3.0), lambda rng, shape: rng.poisson(3.0, shape)),
    "binomial": (
        lambda rng, out: numbers.fill_binomial(rng, out, 9, 0.3),
        lambda rng, shape: rng.binomial(9, 0.3, shape),
    ),
    "geometric": (lambda rng, out: numbers.fill_geometric(rng, out, 0.3), lambda rng, shape: rng.geometric(0.3, shape)),
    "choice": (lambda rng, out: numbers.fill_choice(rng, out, OPTIONS), lambda rng, shape: rng.choice(OPTIONS, shape)),
}


@pytest.mark.parametrize("shape", [(4,), (2, 3)], ids=str)
@pytest.mark.parametrize("draw", FILLED)
def test_an_array_is_filled_as_numpy_draws_it(draw: str, shape: tuple[int, ...]) -> None:
    ours, theirs = FILLED[draw]
    left, right = numbers.Stream(np.random.PCG64(3)), np.random.default_rng(3)
    out = cells(np.zeros(shape))
    for _ in range(5):
        ours(left, out)
        assert np.asarray(out).tolist() == theirs(right, shape).tolist()


def test_numbers_that_an_array_cannot_hold_are_refused() -> None:
    with pytest.raises(FieldError, match="use int"):
        numbers.fill_normal(numbers.Stream(np.random.PCG64(3)), cells(np.zeros(3, np.int8)))
    with pytest.raises(OverflowError, match="does not fit an array of uint8"):
        numbers.fill_integers(numbers.Stream(np.random.PCG64(3)), cells(np.zeros(300, np.uint8)), 1000)


def test_samples_and_counts_are_written_into_fields() -> None:
    left, right = numbers.Stream(np.random.PCG64(3)), np.random.default_rng(3)
    out = cells(np.zeros(3, np.int8))
    numbers.sample(left, 9, out)
    assert np.asarray(out).tolist() == right.choice(9, 3, replace=False).tolist()
    numbers.sample(left, 4, out, (0.1, 0.2, 0.3, 0.4))
    assert np.asarray(out).tolist() == right.choice(4, 3, replace=False, p=(0.1, 0.2, 0.3, 0.4)).tolist()
    numbers.multinomial(left, 20, WEIGHTS, out)
    assert np.asarray(out).tolist() == right.multinomial(20, WEIGHTS).tolist()
